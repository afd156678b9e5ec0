#include "common/extension/version-range.h"

#include <stdint.h>

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace talos::extension {
namespace {

constexpr size_t kNumbers = 3;

struct RangeVersion {
  uint64_t numbers[kNumbers] = {};
  size_t given = 0;  // numbers that are not x
  bool preRelease = false;
};

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// Takes a number with at most 18 digits from the front.
bool takeNumber(std::string_view& text, uint64_t& number) {
  size_t digits = 0;
  number = 0;
  for (; digits < text.size() && isDigit(text[digits]); ++digits) {
    if (digits == 18) return false;
    number = number * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  text.remove_prefix(digits);
  return digits > 0;
}

bool isSuffix(std::string_view text) {
  for (char c : text) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !isDigit(c) && c != '.' && c != '-' && c != '+') return false;
  }
  return text.size() > 1;
}

kj::Maybe<RangeVersion> versionOf(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  RangeVersion version;
  bool wild = false;
  for (size_t i = 0; i < kNumbers; ++i) {
    if (i > 0) {
      if (text.empty() && wild) return version;  // 1.x
      if (!text.starts_with('.')) return nullptr;
      text.remove_prefix(1);
    }
    if (text.starts_with('x')) {
      if (i == 0) return nullptr;
      text.remove_prefix(1);
      wild = true;
    } else if (wild || !takeNumber(text, version.numbers[i])) {
      return nullptr;
    } else {
      ++version.given;
    }
  }
  if (text.empty()) return version;
  if (wild || (text[0] != '-' && text[0] != '+') || !isSuffix(text)) return nullptr;
  version.preRelease = text[0] == '-';
  return version;
}

// Compares the numbers that the bound has, and then the pre-release, which only the bound has.
std::strong_ordering compare(const RangeVersion& version, const RangeVersion& bound) {
  for (size_t i = 0; i < bound.given; ++i) {
    auto order = version.numbers[i] <=> bound.numbers[i];
    if (order != 0) return order;
  }
  return bound.preRelease ? std::strong_ordering::greater : std::strong_ordering::equal;
}

kj::Maybe<bool> holds(const RangeVersion& version, std::string_view sign, std::string_view text) {
  KJ_IF_MAYBE (bound, versionOf(text)) {
    auto order = compare(version, *bound);
    if (sign.empty() || sign == "=" || sign == "==") return order == 0;
    if (sign == "!=" || sign == "!") return order != 0;
    if (sign == ">") return order > 0;
    if (sign == "<") return order < 0;
    if (sign == ">=") return order >= 0;
    if (sign == "<=") return order <= 0;
  }
  return nullptr;
}

struct Comparison {
  std::string_view sign, version;
};

// Splits the part between two ||; nullptr if a sign has no version.
kj::Maybe<std::vector<Comparison>> comparisonsOf(std::string_view part) {
  constexpr std::string_view kSigns = "=!<>";
  std::vector<Comparison> comparisons;
  auto skipBlanks = [&]() {
    while (!part.empty() && (part[0] == ' ' || part[0] == '\t')) part.remove_prefix(1);
  };
  auto take = [&](auto matches) {
    size_t size = 0;
    while (size < part.size() && matches(part[size])) ++size;
    auto taken = part.substr(0, size);
    part.remove_prefix(size);
    return taken;
  };
  for (skipBlanks(); !part.empty(); skipBlanks()) {
    auto sign = take([&](char c) { return kSigns.find(c) != kSigns.npos; });
    skipBlanks();
    auto version =
        take([&](char c) { return c != ' ' && c != '\t' && kSigns.find(c) == kSigns.npos; });
    if (version.empty()) return nullptr;
    comparisons.push_back({sign, version});
  }
  return kj::mv(comparisons);
}

}  // namespace

kj::Maybe<bool> isInRange(kj::StringPtr versionText, kj::StringPtr rangeText) {
  std::string_view text(versionText.begin(), versionText.size());
  text = text.substr(0, text.find_first_of("-+"));
  auto parsed = versionOf(text);
  KJ_IF_MAYBE (version, parsed) {
    if (version->given < kNumbers) return nullptr;
    std::string_view range(rangeText.begin(), rangeText.size());
    if (range.find_first_not_of(" \t") == range.npos) return true;
    bool any = false;
    for (size_t begin = 0; begin <= range.size();) {
      auto end = range.find("||", begin);
      if (end == range.npos) end = range.size();
      bool all = true;
      KJ_IF_MAYBE (comparisons, comparisonsOf(range.substr(begin, end - begin))) {
        if (comparisons->empty()) return nullptr;
        for (auto& each : *comparisons) {
          KJ_IF_MAYBE (held, holds(*version, each.sign, each.version)) {
            all = all && *held;
          } else {
            return nullptr;
          }
        }
      } else {
        return nullptr;
      }
      any = any || all;
      begin = end + 2;
    }
    return any;
  }
  return nullptr;
}

}  // namespace talos::extension
