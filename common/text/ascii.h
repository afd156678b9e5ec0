// Characters and their case in ASCII, whatever the locale: names, numbers, host names.
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

// Returns the text without white space around it.
inline kj::ArrayPtr<const char> trimmed(kj::ArrayPtr<const char> text) {
  auto isSpace = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (text.size() > 0 && isSpace(text.front())) text = text.slice(1, text.size());
  while (text.size() > 0 && isSpace(text.back())) text = text.slice(0, text.size() - 1);
  return text;
}

inline kj::String lowerCase(kj::StringPtr text) {
  auto result = kj::str(text);
  for (char& c : result) {
    if (isUpper(c)) c += 'a' - 'A';
  }
  return result;
}

}  // namespace talos
