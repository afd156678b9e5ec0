// The journal of resources as process 1 held it: any bytes must end in some prefix of whole
// records.
//
// link: machined-resources
#include <kj/debug.h>
#include <string.h>

#include "machined/resources/store-journal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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
