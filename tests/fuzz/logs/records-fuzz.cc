// Records of earlier boots on a disk, and of resources at process 1.
//
// link: common-base common-wire machined-resources
#include <kj/debug.h>
#include <string.h>

#include "common/base/append-only-frames.h"
#include "common/wire/event-line.h"
#include "machined/resources/store-journal.h"
#include "tests/fuzz/fuzz-target.h"

// Any bytes of a disk as the record of an earlier boot.
FUZZ_TARGET(history) {
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

// The journal of resources as process 1 held it: any bytes must end in some prefix of whole
// records.
FUZZ_TARGET(journal) {
  using namespace talos;
  auto heading = machined::journal::heading();
  // Adds a right heading, because the fuzzer would have to guess it to reach a record.
  auto words = kj::heapArray<capnp::word>((heading.size() + size) / sizeof(capnp::word));
  auto bytes = words.asBytes();
  memcpy(bytes.begin(), heading.begin(), heading.size());
  memcpy(bytes.begin() + heading.size(), data, bytes.size() - heading.size());
  auto valid = machined::journal::recover(words, [](rpc::Change::Reader change) {
    auto resource = change.getResource();
    auto again = machined::journal::encode(change);
    KJ_ASSERT(again.size() % sizeof(capnp::word) == 0);
    resource.getMetadata().getId();
  });
  KJ_ASSERT(valid >= heading.size() && valid <= bytes.size(), valid);

  // A message with a right checksum is still foreign.
  if (size >= sizeof(capnp::word)) {
    size_t length = size / sizeof(capnp::word) * sizeof(capnp::word);
    auto record = machined::journal::frame(kj::arrayPtr(data, length));
    auto framed =
        kj::heapArray<capnp::word>((heading.size() + record.size()) / sizeof(capnp::word));
    memcpy(framed.begin(), heading.begin(), heading.size());
    memcpy(framed.asBytes().begin() + heading.size(), record.begin(), record.size());
    machined::journal::recover(
        framed, [](rpc::Change::Reader change) { machined::journal::encode(change); });
  }
  return 0;
}
