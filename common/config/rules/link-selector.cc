#include "common/config/rules/link-selector.h"

#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr size_t kLongest = 4096;    // characters of a selector
constexpr size_t kMostChoices = 32;  // alternatives, and levels of parentheses

using Field = kj::String LinkConditions::*;
struct FieldName {
  kj::StringPtr name;
  Field field;
  bool address;  // octets, which mac() makes a text
};
constexpr FieldName kSelectable[] = {
    {"link.bus_path"_kj, &LinkConditions::busPath, false},
    {"link.driver"_kj, &LinkConditions::driver, false},
    {"link.hardware_addr"_kj, &LinkConditions::hardwareAddr, true},
    {"link.pciid"_kj, &LinkConditions::pciId, false},
    {"link.permanent_addr"_kj, &LinkConditions::permanentAddr, true},
};
constexpr Field kAllFields[] = {&LinkConditions::busPath, &LinkConditions::hardwareAddr,
                                &LinkConditions::permanentAddr, &LinkConditions::pciId,
                                &LinkConditions::driver};

struct Wrong {
  kj::String reason;
};

class Parser {
 public:
  explicit Parser(kj::StringPtr text) : text(text) {}

  kj::Vector<LinkConditions> all() {
    auto result = choices(0);
    if (peek() != '\0') wrong("this is not expected");
    return result;
  }

 private:
  using Choices = kj::Vector<LinkConditions>;
  kj::StringPtr text;
  size_t at = 0;

  [[noreturn]] void wrong(kj::StringPtr reason) const {
    auto rest = text.slice(at);
    auto shown = rest.size() > 20 ? kj::str(rest.slice(0, 20), "…") : kj::str(rest);
    throw Wrong{kj::str("in the selector, at ",
                        shown.size() == 0 ? kj::str("its end") : jsonString(shown), ": ", reason)};
  }
  char peek() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t')) ++at;
    return at < text.size() ? text[at] : '\0';
  }
  bool take(kj::StringPtr token) {
    peek();
    if (!text.slice(at).startsWith(token)) return false;
    at += token.size();
    return true;
  }
  void need(kj::StringPtr token) {
    if (!take(token)) wrong(kj::str("expected ", token));
  }

  Choices choices(size_t depth) {
    auto result = together(depth);
    while (take("||")) {
      for (auto& one : together(depth)) result.add(kj::mv(one));
      if (result.size() > kMostChoices) wrong("too many alternatives");
    }
    return result;
  }

  Choices together(size_t depth) {
    auto result = condition(depth);
    while (take("&&")) {
      auto more = condition(depth);
      Choices both;
      for (auto& a : result) {
        for (auto& b : more) both.add(joined(a, b));
      }
      if (both.size() > kMostChoices) wrong("too many alternatives");
      result = kj::mv(both);
    }
    return result;
  }

  LinkConditions joined(const LinkConditions& a, const LinkConditions& b) const {
    LinkConditions result;
    for (auto field : kAllFields) {
      if ((a.*field).size() > 0 && (b.*field).size() > 0 && a.*field != b.*field) {
        wrong("two conditions on one property must be alternatives (||)");
      }
      result.*field = kj::str((a.*field).size() > 0 ? a.*field : b.*field);
    }
    return result;
  }

  Choices condition(size_t depth) {
    if (depth > kMostChoices) wrong("too many parentheses");
    if (take("(")) {
      auto inner = choices(depth + 1);
      need(")");
      return inner;
    }
    if (take("glob(")) {
      auto pattern = quoted();
      need(",");
      auto field = property();
      need(")");
      return one(field, kj::mv(pattern));
    }
    if (peek() == '"' || peek() == '\'') {
      auto value = plain(quoted());
      need("==");
      return one(property(), kj::mv(value));
    }
    auto field = property();
    if (take("==")) return one(field, plain(quoted()));
    for (auto [name, before, after] :
         {Method{".startsWith("_kj, false, true}, Method{".endsWith("_kj, true, false},
          Method{".contains("_kj, true, true}}) {
      if (!take(name)) continue;
      auto value = plain(quoted());
      need(")");
      return one(field, kj::str(before ? "*" : "", value, after ? "*" : ""));
    }
    wrong("expected ==, startsWith, endsWith or contains");
  }
  struct Method {
    kj::StringPtr name;
    bool before, after;
  };

  static Choices one(Field field, kj::String pattern) {
    Choices result;
    result.add().*field = kj::mv(pattern);
    return result;
  }

  Field property() {
    bool octets = take("mac(");
    for (auto& field : kSelectable) {
      peek();
      auto begin = at;
      if (!take(field.name)) continue;
      char next = at < text.size() ? text[at] : '\0';
      if (next == '_' || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')) {
        at = begin;
        continue;
      }
      if (octets != field.address) wrong(octets ? "this is a text already" : "use mac() for it");
      if (octets) need(")");
      return field.field;
    }
    wrong(
        "this system selects by link.driver, link.bus_path, link.pciid, mac(link.permanent_addr) "
        "and mac(link.hardware_addr)");
  }

  kj::String quoted() {
    char quote = peek();
    if (quote != '"' && quote != '\'') wrong("expected a text in quotes");
    kj::Vector<char> value;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\') wrong("texts here have no \\");
      value.add(text[at]);
    }
    if (at == text.size()) wrong("the text has no end");
    ++at;
    if (value.size() == 0) wrong("an empty text selects no link");
    value.add('\0');
    return kj::String(value.releaseAsArray());
  }
  kj::String plain(kj::String value) const {
    if (value.findFirst('*') != nullptr) wrong("use glob() for a text with *");
    return value;
  }
};

}  // namespace

LinkSelector parseLinkSelector(kj::StringPtr text) {
  LinkSelector result;
  if (text.size() > kLongest) {
    result.problem = kj::str("the selector has more than ", kLongest, " characters");
    return result;
  }
  try {
    result.any = Parser(text).all();
  } catch (Wrong& wrong) {
    result.problem = kj::mv(wrong.reason);
  }
  return result;
}

}  // namespace talos::config
