#include "common/wire/event-line.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/encoding.h>
#include <string.h>

namespace talos {
namespace {

// An event is a few names and a message; the limit is 8 KiB, that of a line of a log.
constexpr size_t kMostEventWords = 8192 * 3 / 4 / sizeof(capnp::word);

}  // namespace

kj::String encodeEvent(rpc::Event::Reader event) {
  capnp::MallocMessageBuilder message(event.totalSize().wordCount + 8);
  message.setRoot(event);
  auto words = capnp::messageToFlatArray(message);
  return kj::encodeBase64(words.asBytes(), false);
}

bool decodeEvent(kj::ArrayPtr<const char> line, kj::FunctionParam<void(rpc::Event::Reader)> use) {
  auto bytes = kj::decodeBase64(line);
  auto size = bytes.size() / sizeof(capnp::word);
  if (bytes.hadErrors || size == 0 || size > kMostEventWords) return false;
  auto words = kj::heapArray<capnp::word>(size);
  memcpy(words.begin(), bytes.begin(), size * sizeof(capnp::word));
  auto broken = kj::runCatchingExceptions([&]() {
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * kMostEventWords;
    capnp::FlatArrayMessageReader reader(words, limits);
    use(reader.getRoot<rpc::Event>());
  });
  return broken == nullptr;
}

}  // namespace talos
