#include "common/config/kubernetes/quantity.h"

#include <cmath>

namespace talos::config {
namespace {

constexpr size_t kLongest = 32;  // no number of the API needs more

struct Suffix {
  kj::StringPtr text;
  double factor;
};
constexpr Suffix kSuffixes[] = {
    {""_kj, 1},
    {"n"_kj, 1e-9},
    {"u"_kj, 1e-6},
    {"m"_kj, 1e-3},
    {"k"_kj, 1e3},
    {"M"_kj, 1e6},
    {"G"_kj, 1e9},
    {"T"_kj, 1e12},
    {"P"_kj, 1e15},
    {"E"_kj, 1e18},
    {"Ki"_kj, 1024.0},
    {"Mi"_kj, 1048576.0},
    {"Gi"_kj, 1073741824.0},
    {"Ti"_kj, 1099511627776.0},
    {"Pi"_kj, 1125899906842624.0},
    {"Ei"_kj, 1152921504606846976.0},
};

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the factor of a suffix, or of an exponent such as e3 or E-2.
kj::Maybe<double> factorOf(kj::StringPtr text) {
  for (auto& suffix : kSuffixes) {
    if (suffix.text == text) return suffix.factor;
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return nullptr;
  bool isSigned = text[1] == '-' || text[1] == '+';
  int power = 0;
  auto digits = text.slice(isSigned ? 2 : 1);
  if (digits.size() == 0 || digits.size() > 2) return nullptr;
  for (char c : digits) {
    if (!isDigit(c)) return nullptr;
    power = power * 10 + (c - '0');
  }
  return std::pow(10.0, text[1] == '-' ? -power : power);
}

}  // namespace

kj::Maybe<double> parseQuantity(kj::StringPtr text) {
  if (text.size() > kLongest) return nullptr;
  if (text.startsWith("+")) text = text.slice(1);
  double number = 0, place = 1;
  bool fraction = false, digits = false;
  size_t i = 0;
  for (; i < text.size() && (isDigit(text[i]) || (text[i] == '.' && !fraction)); ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    digits = true;
    number = number * 10 + (text[i] - '0');
    if (fraction) place *= 10;
  }
  if (!digits) return nullptr;
  return factorOf(text.slice(i)).map([&](double factor) { return number / place * factor; });
}

}  // namespace talos::config
