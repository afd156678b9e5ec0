// Frames: how pieces of a record follow each other in a file that is only ever appended to.
//
//   bytes  content
//   4      "TBR1"
//   4      size of the payload, little-endian
//   4      CRC-32 of the size and the payload
//   8      position: how much of its source there is up to the end of this piece
//   …      the piece
//
// A power cut leaves a frame half-written at most at the end: reading stops at the first one that
// is not whole, and everything before it is what was written. The file is foreign (a disk may be
// anybody's): any bytes are read.
#pragma once

#include <kj/array.h>
#include <kj/function.h>

namespace talos {

constexpr size_t kFrameHead = 20;
constexpr size_t kMostPiece = 32u << 10;

struct Piece {
  uint64_t position;
  kj::ArrayPtr<const char> bytes;
};

kj::Array<kj::byte> frameOf(uint64_t position, kj::ArrayPtr<const char> piece);

// Calls `each` for every whole frame in turn; returns how many bytes they are.
size_t readFrames(kj::ArrayPtr<const kj::byte> file, kj::FunctionParam<void(Piece)> each);

}  // namespace talos
