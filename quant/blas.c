#include "quant/blas.h"

#include <cblas.h>
#include <f77blas.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool one_at_a_time;

/* A process may get any of Debian's three builds of OpenBLAS. The serial one hands out its work buffers without a lock:
 * two calls at once would compute in the same memory. */
static void look_at_library(void) {
    one_at_a_time = openblas_get_parallel() == OPENBLAS_SEQUENTIAL;
    openblas_set_num_threads(1);
}

static void begin(void) {
    pthread_once(&once, look_at_library);
    if (one_at_a_time)
        pthread_mutex_lock(&lock);
}

static void end(void) {
    if (one_at_a_time)
        pthread_mutex_unlock(&lock);
}

void blas_product(const BlasProduct *product) {
    begin();
    cblas_sgemm(CblasRowMajor, product->transpose_a ? CblasTrans : CblasNoTrans,
                product->transpose_b ? CblasTrans : CblasNoTrans, (blasint)product->m, (blasint)product->n,
                (blasint)product->k, product->alpha, product->a, (blasint)product->a_stride, product->b,
                (blasint)product->b_stride, product->beta, product->c, (blasint)product->c_stride);
    end();
}

void blas_solve_lower(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride) {
    begin();
    cblas_strsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (blasint)m, (blasint)n, 1, l,
                (blasint)l_stride, b, (blasint)b_stride);
    end();
}

bool blas_cholesky(float *a, size_t n, size_t stride) {
    char upper[] = "U"; /* LAPACK counts columns first: its upper triangle is our lower one */
    blasint side = (blasint)n, leading = (blasint)stride, info = 0;

    begin();
    spotrf_(upper, &side, a, &leading, &info);
    end();
    return !info;
}
