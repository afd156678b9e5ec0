#include "common/net/text-values.h"

#include <kj/encoding.h>

#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"

namespace talos::config {
namespace {

constexpr size_t kLongestName = 253, kLongestLabel = 63, kLongestLink = 15;
constexpr size_t kLongestNumber = 64;

// A decimal number at the front of a text: its value and its length (0 if there is none).
struct Decimal {
  long double value = 0;
  size_t length = 0;
};
Decimal readDecimal(kj::StringPtr text) {
  Decimal result;
  long double scale = 0;
  bool digits = false;
  for (char c : text) {
    if (isDigit(c)) {
      digits = true;
      if (scale == 0) {
        result.value = result.value * 10 + (c - '0');
      } else {
        result.value += (c - '0') * scale;
        scale /= 10;
      }
    } else if (c == '.' && scale == 0) {
      scale = 0.1L;
    } else {
      break;
    }
    ++result.length;
  }
  if (!digits) result.length = 0;
  return result;
}

struct Unit {
  kj::StringPtr name;
  long double value;
};
// Longer names before their prefixes.
constexpr Unit kTimes[] = {
    {"ns"_kj, 1},    {"us"_kj, 1e3L}, {"\xc2\xb5s"_kj, 1e3L}, {"\xce\xbcs"_kj, 1e3L},
    {"ms"_kj, 1e6L}, {"s"_kj, 1e9L},  {"m"_kj, 60e9L},        {"h"_kj, 3600e9L},
};

}  // namespace

kj::Maybe<uint16_t> parsePort(kj::StringPtr text) {
  if (text.size() == 0 || text.size() > 5) return nullptr;
  uint32_t port = 0;
  for (char c : text) {
    if (!isDigit(c)) return nullptr;
    port = port * 10 + (c - '0');
  }
  if (port < 1 || port > 65535) return nullptr;
  return static_cast<uint16_t>(port);
}

bool isDnsName(kj::StringPtr name) {
  if (name.size() > kLongestName + 1) return false;
  kj::String withoutDot;
  if (name.endsWith(".")) name = withoutDot = kj::heapString(name.slice(0, name.size() - 1));
  if (name.size() == 0 || name.size() > kLongestName || Ip::parse(name) != nullptr) return false;
  size_t length = 0;
  for (char c : name) {
    if (c == '.') {
      if (length == 0) return false;
      length = 0;
      continue;
    }
    bool allowed = isAlphanumeric(c) || c == '_' || (c == '-' && length > 0);
    if (!allowed || ++length > kLongestLabel) return false;
  }
  return length > 0;
}

kj::Maybe<kj::String> hostNameProblem(kj::StringPtr name) {
  if (name.size() > kLongestName) {
    return kj::str("it has ", name.size(), " characters; at most ", kLongestName);
  }
  if (Ip::parse(name) != nullptr) return kj::str("it is an IP address");
  for (kj::ArrayPtr<const char> rest = name.asArray();;) {
    size_t length = 0;
    for (; length < rest.size() && rest[length] != '.'; ++length) {
      if (!isAlphanumeric(rest[length]) && rest[length] != '-') {
        return kj::str("only letters, digits, '-' and '.' are allowed");
      }
    }
    if (length == 0) return kj::str("it has an empty label");
    if (length > kLongestLabel) {
      return kj::str("a label has ", length, " characters; at most ", kLongestLabel);
    }
    if (rest[0] == '-' || rest[length - 1] == '-') {
      return kj::str("a label cannot begin or end with '-'");
    }
    if (length == rest.size()) return nullptr;
    rest = rest.slice(length + 1, rest.size());
  }
}

bool isHost(kj::StringPtr text, bool wildcard) {
  if (Ip::parse(text) != nullptr) return true;
  if (wildcard && text.startsWith("*.")) return isDnsName(text.slice(2));
  return isDnsName(text);
}

bool isHostAndPort(kj::StringPtr text, bool needsPort) {
  if (text.startsWith("[")) {
    KJ_IF_MAYBE (close, text.findFirst(']')) {
      auto ip = Ip::parse(kj::heapString(text.slice(1, *close)));
      KJ_IF_MAYBE (address, ip) {
        auto rest = text.slice(*close + 1);
        if (address->family() != AF_INET6) return false;
        return rest.size() == 0 ? !needsPort
                                : rest[0] == ':' && parsePort(rest.slice(1)) != nullptr;
      }
    }
    return false;
  }
  KJ_IF_MAYBE (colon, text.findFirst(':')) {
    return isHost(kj::heapString(text.slice(0, *colon))) &&
           parsePort(text.slice(*colon + 1)) != nullptr;
  }
  return !needsPort && isHost(text);
}

bool isToken(kj::StringPtr token) {
  if (token.size() != 23 || token[6] != '.') return false;
  for (size_t i = 0; i < token.size(); ++i) {
    bool allowed = (token[i] >= 'a' && token[i] <= 'z') || isDigit(token[i]);
    if (i != 6 && !allowed) return false;
  }
  return true;
}

bool isVisible(kj::StringPtr text) {
  for (char c : text) {
    if (c < '!' || c > '~') return false;
  }
  return text.size() > 0;
}

bool isAuthorityHash(kj::StringPtr text) {
  constexpr kj::StringPtr kAlgorithm = "sha256:"_kj;
  if (!text.startsWith(kAlgorithm) || text.size() != kAlgorithm.size() + 64) return false;
  for (char c : text.slice(kAlgorithm.size())) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

bool isKey(kj::StringPtr base64, size_t octets) {
  auto decoded = kj::decodeBase64(base64);
  KJ_DEFER(zeroize(decoded.asChars()));
  return !decoded.hadErrors && decoded.size() == octets;
}

bool isLinkName(kj::StringPtr name) {
  if (name.size() == 0 || name.size() > kLongestLink || name == "." || name == "..") return false;
  for (char c : name) {
    if (c == '/' || c == ':' || static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return false;
  }
  return true;
}

bool isUnicastMac(kj::StringPtr text) {
  if (text.size() != 17) return false;
  unsigned sum = 0, first = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (i % 3 == 2) {
      if (c != ':' && c != '-') return false;
      continue;
    }
    char lower = static_cast<char>(c | 0x20);
    if (!isDigit(c) && !(lower >= 'a' && lower <= 'f')) return false;
    unsigned digit = isDigit(c) ? c - '0' : lower - 'a' + 10;
    sum += digit;
    if (i == 1) first = digit;
  }
  return sum > 0 && (first & 1) == 0;
}

kj::Maybe<kj::Array<kj::byte>> parseDuid(kj::StringPtr text) {
  constexpr size_t kFewest = 3, kMost = 130;
  bool colons = text.size() > 2 && text[2] == ':';
  if (colons && text.size() % 3 != 2) return nullptr;
  kj::Vector<char> digits(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (!colons || i % 3 != 2) {
      digits.add(text[i]);
    } else if (text[i] != ':') {
      return nullptr;
    }
  }
  auto octets = kj::decodeHex(digits);
  if (octets.hadErrors || octets.size() < kFewest || octets.size() > kMost) return nullptr;
  return kj::Array<kj::byte>(kj::mv(octets));
}

bool isCleanPath(kj::StringPtr path) {
  if (path.size() < 2 || path[0] != '/') return false;
  size_t begin = 1;
  for (size_t i = 1; i <= path.size(); ++i) {
    if (i < path.size() && path[i] == '\0') return false;
    if (i < path.size() && path[i] != '/') continue;
    auto part = path.slice(begin, i);
    // One slash at the end is accepted.
    if (part.size() == 0 && i < path.size()) return false;
    if (part == "."_kj.asArray() || part == ".."_kj.asArray()) return false;
    begin = i + 1;
  }
  return true;
}

kj::String withoutLastSlash(kj::StringPtr path) {
  return kj::str(path.slice(0, path.endsWith("/") ? path.size() - 1 : path.size()));
}

kj::Maybe<kj::String> sysctlPath(kj::StringPtr name) {
  auto dot = name.findFirst('.').orDefault(name.size());
  auto slash = name.findFirst('/').orDefault(name.size());
  if (dot == slash) return nullptr;  // no separator: it names no parameter but a group
  auto path = kj::heapString(name);
  for (char& c : path) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '=') return nullptr;
    if (slash < dot) continue;
    c = c == '.' ? '/' : c == '/' ? '.' : c;
  }
  if (path.endsWith("/") || !isCleanPath(kj::str("/", path))) return nullptr;
  return kj::mv(path);
}

kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text) {
  if (text == "0") return kj::Duration(0 * kj::NANOSECONDS);
  if (text.size() == 0 || text.size() > kLongestNumber) return nullptr;
  long double total = 0;
  while (text.size() > 0) {
    auto number = readDecimal(text);
    if (number.length == 0) return nullptr;
    text = text.slice(number.length);
    bool known = false;
    for (auto& unit : kTimes) {
      if (!text.startsWith(unit.name)) continue;
      total += number.value * unit.value;
      text = text.slice(unit.name.size());
      known = true;
      break;
    }
    if (!known) return nullptr;
  }
  if (total > 9.1e18L) return nullptr;
  return static_cast<int64_t>(total) * kj::NANOSECONDS;
}

kj::Maybe<uint64_t> parseSize(kj::StringPtr text) {
  if (text.size() > kLongestNumber) return nullptr;
  auto number = readDecimal(text);
  if (number.length == 0) return nullptr;
  text = text.slice(number.length);
  if (text.startsWith(" ")) text = text.slice(1);
  auto rest = kj::heapString(text);
  for (char& c : rest) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  long double factor = 1;
  size_t at = 0;
  if (rest.size() > 0 && rest[0] != 'b') {
    KJ_IF_MAYBE (power, "kmgtpe"_kj.findFirst(rest[0])) {
      bool binary = rest.size() > 1 && rest[1] == 'i';
      for (size_t i = 0; i <= *power; ++i) factor *= binary ? 1024 : 1000;
      at = binary ? 2 : 1;
    } else {
      return nullptr;
    }
  }
  if (at < rest.size() && rest[at] == 'b') ++at;
  auto octets = number.value * factor;
  if (at != rest.size() || octets >= 18446744073709551616.0L) return nullptr;
  return static_cast<uint64_t>(octets);
}

kj::Maybe<SizeRule> parseSizeRule(kj::StringPtr text) {
  struct Sign {
    kj::StringPtr sign;
    SizeRule rule;
  };
  // The longer ones first.
  const Sign kSigns[] = {{">=", {false, true, true, 0}},
                         {"<=", {true, true, false, 0}},
                         {"==", {false, true, false, 0}},
                         {">", {false, false, true, 0}},
                         {"<", {true, false, false, 0}}};
  SizeRule rule{false, true, false, 0};
  for (auto& each : kSigns) {
    if (!text.startsWith(each.sign)) continue;
    rule = each.rule;
    text = text.slice(each.sign.size());
    break;
  }
  while (text.startsWith(" ")) text = text.slice(1);
  return parseSize(text).map([&](uint64_t octets) {
    rule.octets = octets;
    return rule;
  });
}

}  // namespace talos::config
