// link: logd-lib
// Any answer of a receiver of OTLP: status, Retry-After and body. Its text is plain and short, and
// the pause has a bound. Lines of any bytes are a request of valid JSON.
#include <kj/debug.h>

#include "common/kube/json.h"
#include "common/text/plain-text.h"
#include "logd/otlp-answer.h"
#include "logd/otlp-request.h"

namespace {

void readAnswer(unsigned status, kj::ArrayPtr<const char> bytes) {
  using namespace talos::logd;
  size_t end = 0;
  while (end < bytes.size() && bytes[end] != '\n' && bytes[end] != '\0') ++end;
  auto header = kj::heapString(bytes.slice(0, end));
  auto answer = readOtlpAnswer(status, header, header.asPtr(),
                               bytes.slice(kj::min(end + 1, bytes.size()), bytes.size()));
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  auto bytes = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  readAnswer(100 + (data[0] << 1 | (data[1] & 1)), bytes.slice(2, size));
  writeRequest(bytes.slice(2, size));
  return 0;
}
