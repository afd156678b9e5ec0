// link: logd-lib
// Any bytes as a line of each stream, in each format: one message, valid UTF-8, within its limit.
#include <kj/debug.h>

#include "common/text/plain-text.h"
#include "logd/line-format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos::logd;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  constexpr size_t kLimit = 400;
  for (auto stream : {talos::config::LogStream::SERVICES, talos::config::LogStream::KERNEL,
                      talos::config::LogStream::EVENTS, talos::config::LogStream::AUDIT}) {
    for (auto format : {talos::config::LogFormat::JSON_LINES, talos::config::LogFormat::RFC5424}) {
      kj::Vector<char> out;
      bool event = stream == talos::config::LogStream::EVENTS;  // it is not cut
      formatLine({.stream = stream, .id = "apid", .text = text},
                 {.format = format, .longest = event ? SIZE_MAX : kLimit, .newline = false}, out);
      KJ_ASSERT(event || out.size() <= kLimit, "the limit is kept");
      for (auto rest = out.asPtr().asBytes(); rest.size() > 0;) {
        auto character = talos::firstCharacter(rest);
        KJ_ASSERT(character.valid && character.code >= 0x20, "valid UTF-8, without control");
        rest = rest.slice(character.bytes, rest.size());
      }
    }
  }
  return 0;
}
