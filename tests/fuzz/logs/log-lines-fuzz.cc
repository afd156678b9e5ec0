// Lines of logs: as the kernel writes them, and on their way to receivers elsewhere.
//
// link: machined-api logd-lib
#include <kj/debug.h>

#include "common/kube/json.h"
#include "common/text/plain-text.h"
#include "logd/line-format.h"
#include "logd/otlp-answer.h"
#include "logd/otlp-request.h"
#include "machined/api/kmsg.h"
#include "tests/fuzz/fuzz-target.h"

// Records of /dev/kmsg: any program that may write there chooses a part of their bytes.
FUZZ_TARGET(kmsg) {
  auto record = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (parsed, talos::machined::parseKmsg(record)) {
    auto line = talos::machined::formatKmsg(*parsed, kj::UNIX_EPOCH);
    KJ_ASSERT(line.endsWith("\n"));
    KJ_ASSERT(line.findFirst('\n').orDefault(0) == line.size() - 1, "a line is one line");
  }
  return 0;
}

// Any bytes as a line of each stream, in each format: one message, valid UTF-8, within its limit.
FUZZ_TARGET(logline) {
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

namespace {

void readAnswer(unsigned status, kj::ArrayPtr<const char> bytes) {
  using namespace talos::logd;
  size_t end = 0;
  while (end < bytes.size() && bytes[end] != '\n' && bytes[end] != '\0') ++end;
  auto header = kj::heapString(bytes.slice(0, end));
  auto answer = readOtlpAnswer(status, header, header.asPtr(),
                               bytes.slice(kj::min(end + 1, bytes.size()), bytes.size()),
                               [](kj::String text) { return text; });
  KJ_ASSERT(answer.message.size() < 500);
  for (auto rest = answer.message.asBytes(); rest.size() > 0;) {
    auto character = talos::firstCharacter(rest);
    KJ_ASSERT(character.valid && character.code >= 0x20 && character.code != 0x7f);
    rest = rest.slice(character.bytes, rest.size());
  }
  bool accepted = answer.outcome == OtlpAnswer::Outcome::kAccepted;
  KJ_ASSERT(accepted == (status >= 200 && status < 300));
  KJ_ASSERT(accepted || answer.rejected == 0);
  KJ_ASSERT(answer.pause.orDefault(0 * kj::SECONDS) <= 1 * kj::MINUTES);
}

void writeRequest(kj::ArrayPtr<const char> bytes) {
  using namespace talos::logd;
  LineTag tags[] = {{kj::str("rack"), kj::heapString(bytes.slice(0, bytes.size() / 2))}};
  OtlpRequest request(tags, "node-1");
  for (auto stream : {talos::config::LogStream::SERVICES, talos::config::LogStream::KERNEL,
                      talos::config::LogStream::EVENTS, talos::config::LogStream::AUDIT}) {
    request.add({.stream = stream, .id = "apid", .text = bytes});
  }
  auto json = talos::kube::readJson(request.finish(), "the request");
  KJ_ASSERT(json["resourceLogs"].size() == 4);
}

}  // namespace

// Any answer of a receiver of OTLP: status, Retry-After and body. Its text is plain and short, and
// the pause has a bound. Lines of any bytes are a request of valid JSON.
FUZZ_TARGET(otlp) {
  if (size < 2) return 0;
  auto bytes = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  readAnswer(100 + (data[0] << 1 | (data[1] & 1)), bytes.slice(2, size));
  writeRequest(bytes.slice(2, size));
  return 0;
}
