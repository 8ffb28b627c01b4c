#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed files of fuzz_gguf into test/fuzz/corpus/gguf: small whole files, and ones with a fault each."""
import pathlib
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144), 13: (256, 176),
          14: (256, 210), 24: (1, 1), 30: (1, 2)}


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, item) for item in items)
    return struct.pack("<" + SCALARS[kind], content)


def gguf(keys, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, content in keys:
        out += string(name) + struct.pack("<I", kind) + value(kind, content)
    data = b""
    for number, (name, kind, shape, *content) in enumerate(tensors):
        out += string(name) + struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *shape)
        out += struct.pack("<IQ", kind, len(data))
        values = 1
        for size in shape:
            values *= size
        block_values, block_bytes = BLOCKS[kind]
        size = values // block_values * block_bytes
        data += content[0] if content else bytes((number * 7 + i * 13) % 61 for i in range(size))
        data += b"\0" * (-size % alignment)
    return out + b"\0" * (-len(out) % alignment) + data


def model_keys(arch, width=32, ff=32):
    return [("general.architecture", STRING, arch), ("general.name", STRING, "seed"), (arch + ".block_count", U32, 1),
            (arch + ".context_length", U32, 64), (arch + ".embedding_length", U32, width), (arch + ".feed_forward_length", U32, ff),
            (arch + ".attention.head_count", U32, 2), (arch + ".attention.head_count_kv", U32, 1),
            (arch + ".attention.layer_norm_rms_epsilon", F32, 1e-5), ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b", "ab", "<s>", "c", "d", "e", "\u0120"])),
            ("tokenizer.ggml.token_type", ARRAY, (I32, [1, 1, 1, 3, 1, 1, 1, 1])),
            ("tokenizer.ggml.merges", ARRAY, (STRING, ["a b"]))]


def model(arch, extra_tensors=(), more_keys=()):
    width, ff, vocab = 32, 32, 8
    tensors = [("token_embd.weight", 8, (width, vocab)), ("blk.0.attn_norm.weight", 0, (width,)), ("blk.0.attn_q.weight", 2, (width, 32)),
               ("blk.0.attn_k.weight", 3, (width, 16)), ("blk.0.attn_v.weight", 6, (width, 16)), *extra_tensors,
               ("blk.0.attn_output.weight", 7, (32, width)), ("blk.0.ffn_norm.weight", 0, (width,)),
               ("blk.0.ffn_gate.weight", 8, (width, ff)), ("blk.0.ffn_up.weight", 1, (width, ff)),
               ("blk.0.ffn_down.weight", 30, (ff, width)), ("output_norm.weight", 0, (width,))]
    return gguf([*model_keys(arch), *more_keys], tensors)


def package(layout, widths):
    """The first matrices of a package, packed at 5 and at 4 to 5 bits, one of `widths`; the others are missing."""
    names = ["token_embd"] + ["blk.0." + name for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    keys = [("general.alignment", U32, 4096), *model_keys("llama"), ("coordgen.format_version", U32, 2),
            ("coordgen.source.sha256", STRING, "0" * 64), ("coordgen.quant.recipe", STRING, "compensated"),
            ("coordgen.quant.steps", ARRAY, (STRING, ["rotation"])), ("coordgen.quant.bits", F32, 4.5),
            ("coordgen.quant.bits_asked", F32, 4.5), ("coordgen.quant.embedding_bits", U32, 5),
            ("coordgen.quant.calibration_sha256", STRING, "1" * 64), ("coordgen.quant.rotated", BOOL, 1),
            ("coordgen.activation_mode", STRING, "dynamic-row"), ("coordgen.linear.names", ARRAY, (STRING, names)),
            ("coordgen.linear.layouts", ARRAY, (STRING, [layout] * 8)), ("coordgen.linear.rotation_block", ARRAY, (U32, [32] * 8)),
            ("coordgen.linear.activations", ARRAY, (STRING, ["dynamic-row"] * 8))]
    tensors = [("token_embd.weight", 24, (640,)), ("token_embd.scales", 0, (8,), struct.pack("<8f", *[0.01] * 8)),
               ("token_embd.bits", 24, (8,), b"\5" * 8), ("blk.0.attn_norm.weight", 0, (32,), struct.pack("<32f", *[1] * 32)),
               ("blk.0.attn_q.weight", 24, (128 * 5 + 128 * 4,)), ("blk.0.attn_q.scales", 0, (32,), struct.pack("<32f", *[0.01] * 32)),
               ("blk.0.attn_q.bits", 24, (32,), widths), ("blk.0.attn_k.bits", 24, (16,))]
    return gguf(keys, tensors, alignment=4096)


def static_package():
    """A whole package with static activations: q, k, v and gate, up have shadows and hot channels."""
    linears = [("token_embd", 32, 8), ("blk.0.attn_q", 32, 32), ("blk.0.attn_k", 32, 16), ("blk.0.attn_v", 32, 16),
               ("blk.0.attn_output", 32, 32), ("blk.0.ffn_gate", 32, 32), ("blk.0.ffn_up", 32, 32), ("blk.0.ffn_down", 32, 32)]
    shadows, hot = (1, 2, 3, 5, 6), {1: [0, 7, 31], 2: [0, 7, 31], 3: [0, 7, 31], 5: [5], 6: [5]}
    inside = range(1, 8)
    keys = [("general.alignment", U32, 4096), *model_keys("llama"), ("coordgen.format_version", U32, 2),
            ("coordgen.source.sha256", STRING, "0" * 64), ("coordgen.quant.recipe", STRING, "int8"),
            ("coordgen.quant.steps", ARRAY, (STRING, ["rotation", "static-activations", "shadow-outliers"])),
            ("coordgen.quant.bits", F32, 8), ("coordgen.quant.bits_asked", F32, 8), ("coordgen.quant.embedding_bits", U32, 8),
            ("coordgen.quant.calibration_sha256", STRING, "1" * 64), ("coordgen.quant.rotated", BOOL, 1),
            ("coordgen.activation_mode", STRING, "static-tensor"), ("coordgen.quant.hot_percent", F32, 3),
            ("coordgen.quant.prune_percent", F32, 50), ("coordgen.linear.names", ARRAY, (STRING, [name for name, _, _ in linears])),
            ("coordgen.linear.layouts", ARRAY, (STRING, ["int8"] * 8)), ("coordgen.linear.rotation_block", ARRAY, (U32, [32] * 8)),
            ("coordgen.linear.activations", ARRAY, (STRING, ["dynamic-row"] + ["static-tensor"] * 7)),
            ("coordgen.linear.activation_scales", ARRAY, (F32, [0.02 * (i in inside) for i in range(8)])),
            ("coordgen.linear.outliers", ARRAY, (STRING, ["none"] + ["shadow" if i in shadows else "clipped" for i in inside])),
            ("coordgen.linear.outlier_importance", ARRAY, (F32, [300 * (i in inside) for i in range(8)])),
            ("coordgen.linear.hot_counts", ARRAY, (U32, [len(hot.get(i, [])) for i in range(8)])),
            ("coordgen.hot_channels", ARRAY, (U32, [c for i in shadows for c in hot[i]]))]
    ones = struct.pack("<32f", *[1] * 32)
    tensors = []
    for i, (name, k, n) in enumerate(linears):
        if name in ("blk.0.attn_q", "blk.0.ffn_gate"):
            tensors.append(("blk.0.attn_norm.weight" if name.endswith("q") else "blk.0.ffn_norm.weight", 0, (32,), ones))
        tensors += [(name + ".weight", 24, (k, n), b"\1" * (k * n)), (name + ".scales", 0, (n,), struct.pack(f"<{n}f", *[0.01] * n)),
                    (name + ".bits", 24, (n,), b"\10" * n)]
        if i in shadows:
            tensors.append((name + ".columns", 24, (n, k), b"\1" * (k * n)))
    return gguf(keys, tensors + [("output_norm.weight", 0, (32,), ones)], alignment=4096)


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    every_key = [("u8", U8, 255), ("i8", I8, -1), ("u16", U16, 65535), ("i16", I16, -2), ("u32", U32, 7), ("i32", I32, -7),
                 ("f32", F32, 0.5), ("bool", BOOL, 1), ("string", STRING, "text \u00e9"), ("u64", U64, 2**64 - 1),
                 ("i64", I64, -(2**63)), ("f64", F64, 1e300)]
    every_key += [("array of " + name, ARRAY, (kind, [content] * 3)) for name, kind, content in every_key]
    biases = [("blk.0.attn_q.bias", 0, (32,)), ("blk.0.attn_k.bias", 0, (16,)), ("blk.0.attn_v.bias", 0, (16,))]
    norms = [("blk.0.attn_q_norm.weight", 0, (16,)), ("blk.0.attn_k_norm.weight", 0, (16,)),
             ("blk.0.post_attention_norm.weight", 0, (32,)), ("blk.0.post_ffw_norm.weight", 0, (32,))]
    blocks = gguf([("general.alignment", U32, 64)], [("k%d" % kind, kind, (256, 2)) for kind in (12, 13, 14)] + [("i8", 24, (5,))],
                  alignment=64)
    whole = gguf([("key", U32, 1), ("general.architecture", STRING, "llama")], [("t", 0, (8,)), ("u", 8, (32, 2))])
    seeds = {
        "empty": b"", "header-only": gguf([], []), "every-key": gguf(every_key, []), "version-2": gguf(every_key[:3], [], version=2),
        "version-1": gguf([], [], version=1), "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "k-blocks": blocks,
        "llama": model("llama"), "qwen2": model("qwen2", biases), "gemma3": model("gemma3", norms),
        "gemma3-windows": model("gemma3", norms, [("gemma3.attention.sliding_window", U32, 16),
                                                  ("gemma3.attention.sliding_window_pattern", ARRAY, (BOOL, [1]))]),
        "cut-in-data": whole[:-40], "cut-in-table": whole[:120], "key-twice": gguf([("a", U8, 1), ("a", U8, 2)], []),
        "tensor-twice": gguf([], [("t", 0, (8,)), ("t", 0, (8,))]), "nested-array": gguf([("a", ARRAY, (ARRAY, [(U8, [1])]))], []),
        "huge-counts": b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63), "bad-utf8": gguf([(b"a\xff", U8, 1)], []),
        "alignment-3": gguf([("general.alignment", U32, 3)], [("t", 0, (8,))]), "type-99": whole.replace(struct.pack("<IQ", 8, 32),
                                                                                                         struct.pack("<IQ", 99, 32)),
        "package-key": gguf([("coordgen.format_version", U32, 2), ("general.alignment", U32, 4096)], [], alignment=4096),
        "package-packed": package("packed", b"\5\4" * 8 + b"\4" * 16),
        "package-packed-normal": package("packed-normal", b"\5" * 16 + b"\4" * 16),
        "package-packed-normal-mixed": package("packed-normal", b"\5\4" * 8 + b"\4" * 16),
        "package-static": static_package(),
    }
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


main()
