#include "common/config/toml-scalars.h"

#include <string.h>

#include "common/text/ascii.h"

namespace talos::toml {

bool isHex(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool isBareKey(char c) {
  return isAlphanumeric(c) || c == '_' || c == '-';
}
bool allOf(const std::string& text, bool (*accepts)(char)) {
  for (char c : text) {
    if (!accepts(c)) return false;
  }
  return !text.empty();
}

namespace {

using Kind = Value::Kind;

// Removes underscores, each of which must be between two digits. Returns false if one is not.
bool removeUnderscores(std::string& text, bool (*isDigitOfBase)(char)) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    bool between =
        i > 0 && i + 1 < text.size() && isDigitOfBase(text[i - 1]) && isDigitOfBase(text[i + 1]);
    if (!between) return false;
  }
  text = out;
  return true;
}

// Returns true for digits without a leading zero, and for "0".
bool isDecimal(const std::string& digits) {
  return allOf(digits, isDigit) && (digits.size() == 1 || digits[0] != '0');
}

bool fitsInteger(const std::string& digits, bool negative) {
  std::string most = negative ? "9223372036854775808" : "9223372036854775807";
  return digits.size() < most.size() || (digits.size() == most.size() && digits <= most);
}

bool isPrefixedInteger(std::string text) {
  if (text.size() < 3 || text[0] != '0') return false;
  char base = text[1];
  text = text.substr(2);
  if (!removeUnderscores(text, isHex)) return false;
  switch (base) {
    case 'x':
      return allOf(text, isHex) && text.size() <= 16;
    case 'o':
      return allOf(text, [](char c) { return c >= '0' && c <= '7'; }) && text.size() <= 21;
    case 'b':
      return allOf(text, [](char c) { return c == '0' || c == '1'; }) && text.size() <= 64;
    default:
      return false;
  }
}

kj::Maybe<Kind> kindOfNumber(std::string text) {
  if (isPrefixedInteger(text)) return Kind::kInteger;
  bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text = text.substr(1);
  if (text == "inf" || text == "nan") return Kind::kFloat;
  if (!removeUnderscores(text, isDigit)) return nullptr;
  auto exponentAt = text.find_first_of("eE");
  std::string exponent;
  if (exponentAt != std::string::npos) {
    exponent = text.substr(exponentAt + 1);
    text = text.substr(0, exponentAt);
    if (exponent.starts_with('-') || exponent.starts_with('+')) exponent = exponent.substr(1);
    if (!allOf(exponent, isDigit)) return nullptr;
  }
  auto point = text.find('.');
  if (point != std::string::npos) {
    bool good = isDecimal(text.substr(0, point)) && allOf(text.substr(point + 1), isDigit);
    if (!good) return nullptr;
    return Kind::kFloat;
  }
  if (!isDecimal(text)) return nullptr;
  if (exponentAt != std::string::npos) return Kind::kFloat;
  if (!fitsInteger(text, negative)) return nullptr;
  return Kind::kInteger;
}

// Returns true if the text has the pattern's shape: d is a digit, any other character itself.
bool hasShape(const std::string& text, const char* pattern) {
  if (text.size() != strlen(pattern)) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (pattern[i] == 'd' ? !isDigit(text[i]) : text[i] != pattern[i]) return false;
  }
  return true;
}

unsigned number(const std::string& text, size_t at, size_t size) {
  unsigned value = 0;
  for (size_t i = at; i < at + size; ++i) value = value * 10 + static_cast<unsigned>(text[i] - '0');
  return value;
}

}  // namespace

bool isDate(const std::string& text) {
  if (!hasShape(text, "dddd-dd-dd")) return false;
  static constexpr unsigned kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  auto year = number(text, 0, 4), month = number(text, 5, 2), day = number(text, 8, 2);
  if (month < 1 || month > 12) return false;
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return day >= 1 && day <= kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

namespace {

bool isClock(std::string text) {
  auto point = text.find('.');
  if (point != std::string::npos) {
    if (!allOf(text.substr(point + 1), isDigit)) return false;
    text = text.substr(0, point);
  }
  return hasShape(text, "dd:dd:dd") && number(text, 0, 2) < 24 && number(text, 3, 2) < 60 &&
         number(text, 6, 2) <= 60;
}

bool isTime(const std::string& text) {
  if (text.size() <= 10 || text[2] == ':') return isDate(text) || isClock(text);
  char between = text[10];
  if (!isDate(text.substr(0, 10)) || (between != 'T' && between != 't' && between != ' ')) {
    return false;
  }
  auto clock = text.substr(11);
  if (clock.ends_with('Z') || clock.ends_with('z')) {
    clock.pop_back();
    return isClock(clock);
  }
  auto zone = clock.find_first_of("+-");
  if (zone == std::string::npos) return isClock(clock);
  auto offset = clock.substr(zone + 1);
  return isClock(clock.substr(0, zone)) && hasShape(offset, "dd:dd") && number(offset, 0, 2) < 24 &&
         number(offset, 3, 2) < 60;
}

}  // namespace

kj::Maybe<Value::Kind> kindOfPlain(const std::string& text) {
  if (text == "true" || text == "false") return Kind::kBoolean;
  if (isTime(text)) return Kind::kTime;
  return kindOfNumber(text);
}

}  // namespace talos::toml
