// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/blas.h"

#include <assert.h>
#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <f77blas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libopenblas.so.0"

/* The library is loaded at first use, not linked. A linked library's constructor would start threads before main(), in
 * every program, and a SIGINT that main() has blocked for its signalfd would kill the process through one of these
 * threads. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded, one_at_a_time;
static char why_not[160];
static __typeof__(cblas_sgemm) *sgemm;
static __typeof__(cblas_strsm) *strsm;
static __typeof__(spotrf_) *spotrf;

static void load(void) {
    __typeof__(openblas_get_parallel) *get_parallel;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    void *library;

    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1); /* OpenBLAS reads this at its load, and starts no threads */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why_not, sizeof(why_not), "%s", dlerror());
        return;
    }
    /* dlsym() returns functions as void *. */
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&strsm = dlsym(library, "cblas_strsm");
    *(void **)&spotrf = dlsym(library, "spotrf_");
    *(void **)&get_parallel = dlsym(library, "openblas_get_parallel");
    *(void **)&set_num_threads = dlsym(library, "openblas_set_num_threads");
    if (!sgemm || !strsm || !spotrf || !get_parallel || !set_num_threads) {
        snprintf(why_not, sizeof(why_not), LIBRARY " lacks a routine");
        return;
    }
    /* Debian has three builds of OpenBLAS. The serial build hands out its work buffers without a lock: two calls at
     * once would compute in the same memory. */
    one_at_a_time = get_parallel() == OPENBLAS_SEQUENTIAL;
    set_num_threads(1);
    loaded = true;
}

int blas_load(ErrText *err) {
    pthread_once(&once, load);
    if (!loaded)
        return err_set(err, -ENOENT, "OpenBLAS cannot be loaded (%s): install the package libopenblas0", why_not);
    return 0;
}

static void blas_begin(void) {
    pthread_once(&once, load);
    assert(loaded); /* the caller has called blas_load() */
    if (one_at_a_time)
        pthread_mutex_lock(&lock);
}

static void blas_end(void) {
    if (one_at_a_time)
        pthread_mutex_unlock(&lock);
}

void blas_product(const BlasProduct *product) {
    blas_begin();
    sgemm(CblasRowMajor, product->transpose_a ? CblasTrans : CblasNoTrans,
          product->transpose_b ? CblasTrans : CblasNoTrans, (blasint)product->m, (blasint)product->n,
          (blasint)product->k, product->alpha, product->a, (blasint)product->a_stride, product->b,
          (blasint)product->b_stride, product->beta, product->c, (blasint)product->c_stride);
    blas_end();
}

void blas_solve_lower(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride) {
    blas_begin();
    strsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (blasint)m, (blasint)n, 1, l,
          (blasint)l_stride, b, (blasint)b_stride);
    blas_end();
}

void blas_solve_lower_back(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride) {
    blas_begin();
    strsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (blasint)m, (blasint)n, 1, l,
          (blasint)l_stride, b, (blasint)b_stride);
    blas_end();
}

bool blas_cholesky(float *a, size_t n, size_t stride) {
    char upper[] = "U"; /* LAPACK is column-major: its upper triangle is the lower one of a row-major matrix */
    blasint side = (blasint)n, leading = (blasint)stride, info = 0;

    blas_begin();
    spotrf(upper, &side, a, &leading, &info);
    blas_end();
    return !info;
}
