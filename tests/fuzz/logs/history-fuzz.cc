// link: common-base common-wire
// Any bytes of a disk as the record of an earlier boot.
#include <kj/debug.h>

#include "common/base/append-only-frames.h"
#include "common/wire/event-line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  size_t pieces = 0;
  auto valid = readFrames(kj::arrayPtr(data, size), [&](Piece piece) {
    KJ_ASSERT(piece.bytes.size() <= kMostPiece, "the promise of frames.h");
    pieces += kFrameHead + piece.bytes.size();
    decodeEvent(piece.bytes, [](talos::rpc::Event::Reader event) { event.totalSize(); });
  });
  KJ_ASSERT(valid == pieces && valid <= size, "frames follow each other");
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  decodeEvent(text, [](talos::rpc::Event::Reader event) { event.totalSize(); });
  // Written frames can be read again.
  if (size <= kMostPiece) {
    auto frame = frameOf(size, text);
    KJ_ASSERT(readFrames(frame, [&](Piece piece) { KJ_ASSERT(piece.bytes == text); }) ==
              frame.size());
  }
  return 0;
}
