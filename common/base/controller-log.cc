#include "common/base/controller-log.h"

#include <kj/vector.h>

#include "common/base/node-messages.h"

namespace talos {
namespace {

constexpr kj::StringPtr kController = "controller"_kj, kMessage = "message"_kj, kTime = "time"_kj;
constexpr auto kSayAgain = 1 * kj::MINUTES;

// Takes a value, and the blank after it, from the front of the rest of a line. Only escapes of
// quotes and backslashes are undone: all others represent characters that a log must not contain.
kj::String takeValue(kj::ArrayPtr<const char>& rest) {
  kj::Vector<char> value;
  bool quoted = rest.size() > 0 && rest[0] == '"';
  size_t at = quoted ? 1 : 0;
  for (; at < rest.size() && rest[at] != (quoted ? '"' : ' '); ++at) {
    bool escape = quoted && rest[at] == '\\' && at + 1 < rest.size();
    if (escape && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    value.add(rest[at]);
  }
  if (quoted) ++at;
  rest = rest.slice(kj::min(at + 1, rest.size()), rest.size());
  return kj::heapString(value.begin(), value.size());
}

kj::String takeKey(kj::ArrayPtr<const char>& rest) {
  size_t end = 0;
  while (end < rest.size() && rest[end] != '=') ++end;
  auto key = kj::heapString(rest.begin(), end);
  rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
  return key;
}

// 2021-03-09T13:57:11.042Z
kj::Maybe<kj::String> shownTime(kj::StringPtr stamp) {
  constexpr kj::StringPtr kForm = "dddd-dd-ddTdd:dd:dd"_kj;
  if (stamp.size() < kForm.size()) return nullptr;
  auto shown = kj::str(stamp.slice(0, kForm.size()));
  for (auto i : kj::indices(kForm)) {
    bool digit = shown[i] >= '0' && shown[i] <= '9';
    if (kForm[i] == 'd' ? !digit : shown[i] != kForm[i]) return nullptr;
    if (shown[i] == '-') shown[i] = '/';
    if (shown[i] == 'T') shown[i] = ' ';
  }
  return kj::mv(shown);
}

}  // namespace

void ControllerLog::info(kj::StringPtr message) const {
  log::info(message, {{kController, name}});
}

void ControllerLog::failed(kj::StringPtr error, kj::TimePoint now) {
  if (error == last && now - written < kSayAgain) return;
  last = kj::str(error);
  written = now;
  log::warn(kj::str(messages::kControllerFailed, error), {{kController, name}});
}

kj::Maybe<ControllerLine> readControllerLine(kj::ArrayPtr<const char> line) {
  ControllerLine found;
  for (auto rest = line; rest.size() > 0;) {
    auto key = takeKey(rest);
    auto value = takeValue(rest);
    if (key == kController) {
      found.controller = kj::mv(value);
    } else if (key == kMessage) {
      found.message = kj::mv(value);
    } else if (key == kTime) {
      found.time = shownTime(value).orDefault(kj::String());
    }
  }
  bool whole = found.time.size() > 0 && found.controller.size() > 0 && found.message.size() > 0;
  if (!whole) return nullptr;
  return kj::mv(found);
}

}  // namespace talos
