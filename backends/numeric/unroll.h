// SPDX-License-Identifier: Apache-2.0
/* UNROLL before a short loop with a constant count: arrays of accumulators become registers in both compilers. */
#ifndef COORDGEN_NUMERIC_UNROLL_H
#define COORDGEN_NUMERIC_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_BY_4 _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_BY_4 _Pragma("GCC unroll 4")
#endif

#endif
