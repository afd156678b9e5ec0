// link: machined-confined-login1
// Locks that programs ask for over D-Bus: four texts each, taken or refused, and released in any
// order. What is kept is shown to others over D-Bus and in resources, as text.
#include <kj/debug.h>
#include <kj/encoding.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "machined/confined/login1/inhibitors.h"

using namespace talos::login1;

namespace {

// D-Bus has valid UTF-8 only, and its library ends a connection that sends something else.
kj::String asOnTheBus(kj::ArrayPtr<const char> bytes) {
  auto text = kj::heapString(bytes);
  for (char& c : text) {
    if (c == '\0') c = '?';
  }
  if (kj::encodeUtf16(text).hadErrors) return kj::str("é", kj::encodeHex(text.asBytes()));
  return text;
}

void check(kj::StringPtr text) {
  KJ_ASSERT(text.size() <= kMostInhibitorText);
  KJ_ASSERT(!kj::encodeUtf16(text).hadErrors, "not valid UTF-8 any more");
  for (char c : text) KJ_ASSERT(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

class Input {
 public:
  explicit Input(kj::ArrayPtr<const char> bytes) : rest(bytes) {}
  bool ends() const { return rest.size() == 0; }
  uint8_t byte() {
    if (ends()) return 0;
    auto first = static_cast<uint8_t>(rest[0]);
    rest = rest.slice(1, rest.size());
    return first;
  }
  kj::String text() {
    auto size = kj::min(rest.size(), size_t{byte()} * 2);
    size = kj::min(size, rest.size());
    auto bytes = rest.slice(0, size);
    rest = rest.slice(size, rest.size());
    return asOnTheBus(bytes);
  }

 private:
  kj::ArrayPtr<const char> rest;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(kj::arrayPtr(reinterpret_cast<const char*>(data), size));
  Inhibitors locks;
  while (!input.ends()) {
    auto kind = input.byte();
    if ((kind & 3) == 3) {
      locks.remove(kind >> 2);
      continue;
    }
    // Most of them as they should be, or none would be kept.
    Inhibitor lock{.what = (kind & 4) ? input.text() : kj::str("shutdown"),
                   .who = input.text(),
                   .why = input.text(),
                   .mode = (kind & 8) ? input.text() : kj::str("delay"),
                   .pid = kind};
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { locks.add(kj::mv(lock)); })) {
      KJ_ASSERT(!kj::encodeUtf16(talos::messageOf(*e)).hadErrors, "a refusal is not valid UTF-8");
    }
  }
  KJ_ASSERT(locks.holders().size() <= kMostInhibitors);
  for (auto& entry : locks) {
    check(entry.value.who);
    check(entry.value.why);
  }
  return 0;
}
