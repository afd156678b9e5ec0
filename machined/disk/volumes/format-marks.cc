#include "machined/disk/volumes/format-marks.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/disk/devices/meta-values.h"

namespace talos::machined {
namespace {

uint32_t tagOf(kj::StringPtr label) {
  if (label == "STATE") return static_cast<uint32_t>(MetaTag::kFormatState);
  KJ_REQUIRE(label == "EPHEMERAL", label);
  return static_cast<uint32_t>(MetaTag::kFormatEphemeral);
}

}  // namespace

kj::Promise<bool> MetaFormatMarks::has(kj::StringPtr label, uint64_t begin) {
  auto wanted = kj::str(begin);
  bool marked = false;
  co_await meta.read(pool.of(0), tagOf(label))
      .then(
          [&](kj::Vector<MetaValue> values) {
            for (auto& value : values) marked = value.value.asChars() == wanted.asArray();
          },
          [&](kj::Exception&& e) {
            auto kind = kindOf(e);
            // The mark or META is missing.
            if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
            fail(kind, kj::str("whether ", label,
                               " was formatted to the end is not known: ", messageOf(e)));
          });
  co_return marked;
}

kj::Promise<bool> MetaFormatMarks::set(kj::StringPtr label, uint64_t begin) {
  auto text = kj::str(begin);
  return meta.write(pool.of(0), tagOf(label), kj::heapArray(text.asBytes()))
      .then([]() { return true; },
            [](kj::Exception&& e) {
              if (kindOf(e) != ErrorKind::kFailedPrecondition) kj::throwFatalException(kj::mv(e));
              return false;
            });
}

kj::Promise<void> MetaFormatMarks::clear(kj::StringPtr label) {
  return meta.remove(pool.of(0), tagOf(label)).catch_([](kj::Exception&& e) {
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
  });
}

}  // namespace talos::machined
