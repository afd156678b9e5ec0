// The types of plain scalars: booleans, integers, floats, null or text.

#include <cstdlib>

#include "common/text/ascii.h"
#include "common/yaml/yaml.h"

namespace talos::codec {
namespace {

int digitValue(char c) {
  if (isDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Matches [-+]? ( digits ( . digits* )? | . digits ) ( [eE] [-+]? digits )?
bool isDecimal(kj::StringPtr text) {
  size_t i = 0, digits = 0;
  auto skipDigits = [&]() {
    while (i < text.size() && isDigit(text[i])) ++i, ++digits;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  skipDigits();
  if (i < text.size() && text[i] == '.') ++i, skipDigits();
  if (digits == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    digits = 0;
    skipDigits();
    if (digits == 0) return false;
  }
  return i == text.size();
}

bool isNonFinite(kj::StringPtr text) {
  if (text.startsWith("-") || text.startsWith("+")) text = text.slice(1);
  for (auto spelling : {".inf"_kj, ".Inf"_kj, ".INF"_kj, ".nan"_kj, ".NaN"_kj, ".NAN"_kj}) {
    if (text == spelling) return true;
  }
  return false;
}

}  // namespace

kj::Maybe<bool> parseBool(kj::StringPtr text) {
  for (auto spelling : {"true"_kj, "True"_kj, "TRUE"_kj, "y"_kj, "Y"_kj, "yes"_kj, "Yes"_kj,
                        "YES"_kj, "on"_kj, "On"_kj, "ON"_kj}) {
    if (text == spelling) return true;
  }
  for (auto spelling : {"false"_kj, "False"_kj, "FALSE"_kj, "n"_kj, "N"_kj, "no"_kj, "No"_kj,
                        "NO"_kj, "off"_kj, "Off"_kj, "OFF"_kj}) {
    if (text == spelling) return false;
  }
  return nullptr;
}

kj::Maybe<Integer> parseInteger(kj::StringPtr text) {
  Integer result{false, 0};
  if (text.startsWith("-") || text.startsWith("+")) {
    result.negative = text[0] == '-';
    text = text.slice(1);
  }
  unsigned base = 10;
  if (text.size() > 1 && text[0] == '0') {
    char kind = text[1];
    base = kind == 'x' || kind == 'X' ? 16 : kind == 'b' || kind == 'B' ? 2 : 8;
    text = text.slice(isDigit(kind) ? 1 : 2);
    if (base == 8 && !isDigit(kind) && kind != 'o' && kind != 'O') return nullptr;
  }
  if (text.size() == 0) return nullptr;
  for (char c : text) {
    unsigned digit = digitValue(c);
    if (digit >= base) return nullptr;
    if (__builtin_mul_overflow(result.magnitude, uint64_t(base), &result.magnitude)) return nullptr;
    if (__builtin_add_overflow(result.magnitude, uint64_t(digit), &result.magnitude))
      return nullptr;
  }
  return result;
}

ScalarType scalarType(kj::StringPtr plain) {
  if (plain.size() == 0) return ScalarType::kNull;
  for (auto spelling : {"~"_kj, "null"_kj, "Null"_kj, "NULL"_kj}) {
    if (plain == spelling) return ScalarType::kNull;
  }
  for (auto spelling : {"true"_kj, "True"_kj, "TRUE"_kj, "false"_kj, "False"_kj, "FALSE"_kj}) {
    if (plain == spelling) return ScalarType::kBool;
  }
  if (parseInteger(plain) != nullptr) return ScalarType::kInteger;
  if (isDecimal(plain) || isNonFinite(plain)) return ScalarType::kFloat;
  return ScalarType::kText;
}

}  // namespace talos::codec
