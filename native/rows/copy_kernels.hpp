// The two loops of a gather. copy.cpp includes this file once per instruction set, inside a
// namespace that defines `Vector` (type T, load, store, stream). The macro KERNEL is the
// instruction set's target attribute. The loops load only from the requested rows and store only to
// the output. The file has no #pragma once, because it is included several times.

KERNEL INLINE void copy_line(uint8_t* to, const uint8_t* from) {
  for (uint64_t i = 0; i < 64; i += sizeof(Vector::T))
    Vector::store(to + i, Vector::load(from + i));
}

KERNEL INLINE void stream_line(uint8_t* line, const uint8_t* from) {
  for (uint64_t i = 0; i < 64; i += sizeof(Vector::T))
    Vector::stream(line + i, Vector::load(from + i));
}

// Copies a row line by line. Before each line, prefetches the line at the same offset of the row
// `later`.
KERNEL INLINE void copy_row(uint8_t* to, const uint8_t* from, uint64_t bytes,
                            const uint8_t* later) {
  if (bytes < 64) {
    fetch_ends(later, bytes);
    return copy_short(to, from, bytes);
  }
  for (uint64_t i = 0; i + 64 < bytes; i += 64) {
    fetch_line(later, i);
    copy_line(to + i, from + i);
  }
  fetch_line(later, bytes - 1);
  copy_line(to + bytes - 64, from + bytes - 64);
}

KERNEL void plain(const CopyTask& task) {
  const uint64_t ahead = rows_ahead(task.row_bytes);
  uint8_t* out = task.out;
  for (uint64_t at = task.begin; at < task.end; ++at, out += task.row_bytes)
    copy_row(out, row_of(task, at), task.row_bytes, later_row(task, at + ahead));
}

// Collects each 64-byte line of the output, and writes the line when all its bytes are known. If a
// row ends within a line, `carry` stores the bytes so far. The next row completes this line.
KERNEL void streaming(const CopyTask& task) {
  const uint64_t bytes = task.row_bytes;
  const uint64_t ahead = rows_ahead(bytes);
  alignas(64) uint8_t room[192];
  uint8_t* const carry = room + 64;  // a 64-byte copy may begin before carry and end after it
  uint64_t held = reinterpret_cast<uintptr_t>(task.out) & 63;
  uint8_t* line = task.out - held;
  uint64_t skip = held;  // bytes of the first line that precede the output
  for (uint64_t at = task.begin; at < task.end; ++at) {
    const uint8_t* row = row_of(task, at);
    const uint8_t* const later = later_row(task, at + ahead);
    const uint8_t* const start = row;
    const uint8_t* const stop = row + bytes;
    fetch_ends(later, bytes);
    if (held != 0) {
      if (bytes < 64) {
        copy_short(carry + held, row, bytes);
      } else {
        copy_line(carry + held, row);
      }
      if (held + bytes < 64) {
        held += bytes;
        continue;
      }
      if (skip == 0) {
        stream_line(line, carry);
      } else {
        std::memcpy(line + skip, carry + skip, 64 - skip);
        skip = 0;
      }
      line += 64;
      row += 64 - held;
    }
    for (; row + 64 <= stop; row += 64, line += 64) {
      fetch_line(later, row - start);
      stream_line(line, row);
    }
    held = stop - row;
    if (held == 0) continue;
    if (bytes >= 64) {
      copy_line(carry + held - 64, stop - 64);
    } else {
      copy_short(carry, row, held);
    }
  }
  if (held > skip) std::memcpy(line + skip, carry + skip, held - skip);
}
