# SPDX-License-Identifier: Apache-2.0
"""GGUF files for tests: the smallest one, and models cut into several files."""

import re
import struct

ALIGNMENT = 32
# One number, behind its description.
TINY = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + struct.pack("<Q1sIQIQ", 1, b"t", 1, 1, 0, 0) + bytes(7 + 4)
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, U16, U32 = 8, 9, 2, 4


def text(value):
    return struct.pack("<Q", len(value)) + value


def with_type(kind):
    """A whole file whose general.type says that it is no model."""
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text(b"general.type") + struct.pack("<I", STRING) + text(kind)


def skip_value(data, at, kind):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + SIZES[kind]
    element, n = struct.unpack_from("<IQ", data, at)
    at += 12
    if element != STRING:
        return at + n * SIZES[element]
    for _ in range(n):
        at = skip_value(data, at, STRING)
    return at


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def contents(data):
    """Of a model: its number of keys, their bytes, and its tensors as (description, their bytes)."""
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at = skip_value(data, at, STRING)
        at = skip_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    keys, tensors = data[24:at], []
    for _ in range(n_tensors):
        begin, at = at, skip_value(data, at, STRING)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        tensors.append((data[begin:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    base = at + -at % ALIGNMENT
    ends = [offset for _, offset in tensors[1:]] + [len(data) - base]
    return n_keys, keys, [(head, data[base + offset:base + end]) for (head, offset), end in zip(tensors, ends)]


def cut_layers(source, path, n_layers):
    """A model of the first layers of another one: the same tokens, and a part of the arithmetic."""
    n_keys, keys, tensors = contents(source.read_bytes())
    count = re.search(rb"\.block_count\x04\0\0\0", keys).end()
    keys = keys[:count] + struct.pack("<I", n_layers) + keys[count + 4:]
    head, body, n = b"", b"", 0
    for description, values in tensors:
        layer = re.match(rb".{8}blk\.(\d+)\.", description, re.S)
        if layer and int(layer[1]) >= n_layers:
            continue
        head += description + struct.pack("<Q", len(body))
        body += padded(values)
        n += 1
    path.write_bytes(padded(struct.pack("<4sIQQ", b"GGUF", 3, n, n_keys) + keys + head) + body)


def split(source, folder, stem, n):
    """Cuts a model into n files as llama-gguf-split does; the first one has all keys. Returns their paths."""
    n_keys, keys, tensors = contents(source.read_bytes())
    n_tensors = len(tensors)
    paths = []
    for part in range(n):
        own = range(len(tensors) * part // n, len(tensors) * (part + 1) // n)
        head, body = b"", b""
        for i in own:
            head += tensors[i][0] + struct.pack("<Q", len(body))
            body += padded(tensors[i][1])
        head = (b"" if part else keys) + text(b"split.no") + struct.pack("<IH", U16, part) + \
            text(b"split.count") + struct.pack("<IH", U16, n) + \
            text(b"split.tensors.count") + struct.pack("<II", 5, n_tensors) + head
        whole = padded(struct.pack("<4sIQQ", b"GGUF", 3, len(own), 3 + (0 if part else n_keys)) + head) + body
        paths.append(folder / f"{stem}-{part + 1:05}-of-{n:05}.gguf")
        paths[-1].write_bytes(whole)
    return paths


def with_ids(source, path, ids):
    """The model with more keys of 32 bits: {key: value}."""
    data = source.read_bytes()
    n_keys, keys, tensors = contents(data)
    for key, value in ids.items():
        keys += text(key.encode()) + struct.pack("<II", U32, value)
    head, body = b"", b""
    for description, values in tensors:
        head += description + struct.pack("<Q", len(body))
        body += padded(values)
    path.write_bytes(padded(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), n_keys + len(ids)) + keys + head) + body)
