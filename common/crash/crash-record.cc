#include "common/crash/crash-record.h"

#include <signal.h>
#include <string.h>

#include "common/base/lines.h"
#include "common/text/foreign-text.h"

namespace talos::crash {
namespace {

kj::String foreign(kj::ArrayPtr<const char> bytes) {
  return fieldText(bytes, kLongestValue);
}

// "0x" and up to 16 lower-case hexadecimal digits.
bool isAddress(kj::StringPtr text) {
  constexpr size_t kLongest = 2 + 16;
  if (!text.startsWith("0x") || text.size() < 3 || text.size() > kLongest) return false;
  return strspn(text.cStr() + 2, "0123456789abcdef") == text.size() - 2;
}

bool isHexadecimal(kj::StringPtr text) {
  return strspn(text.cStr(), "0123456789abcdef") == text.size();
}

struct KeyAndValue {
  kj::ArrayPtr<const char> key, value;

  explicit KeyAndValue(kj::ArrayPtr<const char> line) : key(line), value(line.slice(0, 0)) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] != ' ') continue;
      key = line.slice(0, i);
      value = line.slice(i + 1, line.size());
      return;
    }
  }
  bool is(kj::StringPtr name) const { return key == name.asArray(); }
  uint32_t number() const { return foreign(value).tryParseAs<uint32_t>().orDefault(0); }
};

void take(CrashRecord& record, const KeyAndValue& line) {
  auto address = [&](kj::FunctionParam<void(kj::String)> use) {
    auto text = foreign(line.value);
    if (isAddress(text)) use(kj::mv(text));
  };
  if (line.is("program")) {
    record.program = foreign(line.value);
  } else if (line.is("build-id")) {
    auto text = foreign(line.value);
    if (isHexadecimal(text)) record.buildId = kj::mv(text);
  } else if (line.is("pid")) {
    record.pid = line.number();
  } else if (line.is("sender")) {
    record.sender = line.number();
  } else if (line.is("address")) {
    address([&](kj::String text) { record.address = kj::mv(text); });
  } else if (line.is("register")) {
    if (record.registers.size() < 8) record.registers.add(foreign(line.value));
  } else if (line.is("wait") && record.waits.size() < kMostWaits) {
    KeyAndValue wait(line.value);
    record.waits.add(
        WaitRecord{foreign(wait.key).tryParseAs<uint64_t>().orDefault(0), foreign(wait.value)});
  } else if (line.is("end")) {
    record.whole = true;
  } else if (line.is("frame") && record.frames.size() < kMostFramesRead) {
    address([&](kj::String text) { record.frames.add(kj::mv(text)); });
  }
}

}  // namespace

kj::Maybe<CrashRecord> parseCrashRecord(kj::ArrayPtr<const char> text) {
  CrashRecord record;
  bool first = true, inMap = false;
  for (auto line : Lines(text)) {
    KeyAndValue parts(line);
    if (first) {
      if (!parts.is("signal")) return nullptr;
      record.signal = foreign(parts.value).tryParseAs<int>().orDefault(0);
      if (record.signal < 1 || record.signal > SIGRTMAX) return nullptr;
      first = false;
    } else if (inMap) {
      if (record.map.size() < kMostMapLines) record.map.add(foreign(line));
    } else if (parts.is("map") && parts.value.size() == 0) {
      inMap = true;
    } else {
      take(record, parts);
    }
  }
  if (first) return nullptr;
  if (record.frames.empty()) {
    record.problem = kj::str("the program could not write its stack");
  } else if (!inMap || record.map.empty()) {
    record.problem = kj::str("the program could not write its memory map");
  }
  return kj::mv(record);
}

kj::String signalName(int number) {
  auto known = sigabbrev_np(number);
  return known == nullptr ? kj::str("SIG", number) : kj::str("SIG", known);
}

}  // namespace talos::crash
