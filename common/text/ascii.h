// Characters and their case as ASCII has them, whatever the locale: names, numbers, host names.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool isLower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool isUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool isAlphanumeric(char c) {
  return isLower(c) || isUpper(c) || isDigit(c);
}

inline kj::String lowerCase(kj::StringPtr text) {
  auto result = kj::str(text);
  for (char& c : result) {
    if (isUpper(c)) c += 'a' - 'A';
  }
  return result;
}

}  // namespace talos
