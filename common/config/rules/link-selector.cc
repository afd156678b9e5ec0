#include "common/config/rules/link-selector.h"

#include "common/cel/cel-expression.h"

namespace talos::config {
namespace {

constexpr size_t kMostChoices = 32;  // alternatives

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

using cel::Expression;
using Kind = Expression::Kind;
using Choices = kj::Vector<LinkConditions>;

[[noreturn]] void wrong(const Expression& at, kj::StringPtr message) {
  throw cel::Mistake{at.at, kj::str(message)};
}

// Methods of a text, and on which sides of their argument any characters may be.
struct Method {
  kj::StringPtr name;
  bool before, after;
};
constexpr Method kMethods[] = {
    {"startsWith"_kj, false, true}, {"endsWith"_kj, true, false}, {"contains"_kj, true, true}};

Choices one(Field field, kj::String pattern) {
  Choices result;
  result.add().*field = kj::mv(pattern);
  return result;
}

// Returns the name of a member of a variable, "link.driver"; "" for another expression.
kj::String memberName(const Expression& e) {
  if (e.kind != Kind::kMember || e.parts[0].kind != Kind::kName) return kj::str();
  return kj::str(e.parts[0].name, ".", e.name);
}

Field property(const Expression& e) {
  bool octets = e.isCall("mac") && !e.isMethod && e.parts.size() == 1;
  auto name = memberName(octets ? e.parts[0] : e);
  for (auto& field : kSelectable) {
    if (field.name != name) continue;
    if (octets != field.address) wrong(e, octets ? "this is a text already" : "use mac() for it");
    return field.field;
  }
  wrong(e,
        "this system selects by link.driver, link.bus_path, link.pciid, mac(link.permanent_addr) "
        "and mac(link.hardware_addr)");
}

kj::StringPtr quoted(const Expression& e) {
  if (e.kind != Kind::kText) wrong(e, "expected a text in quotes");
  if (e.name.size() == 0) wrong(e, "an empty text selects no link");
  return e.name;
}
kj::StringPtr plain(const Expression& e) {
  auto value = quoted(e);
  if (value.findFirst('*') != nullptr) wrong(e, "use glob() for a text with *");
  return value;
}

LinkConditions joined(const Expression& e, const LinkConditions& a, const LinkConditions& b) {
  LinkConditions result;
  for (auto field : kAllFields) {
    if ((a.*field).size() > 0 && (b.*field).size() > 0 && a.*field != b.*field) {
      wrong(e, "two conditions on one property must be alternatives (||)");
    }
    result.*field = kj::str((a.*field).size() > 0 ? a.*field : b.*field);
  }
  return result;
}

Choices choicesOf(const Expression& e) {
  if (e.isCall("||") || e.isCall("&&")) {
    auto left = choicesOf(e.parts[0]), right = choicesOf(e.parts[1]);
    if (e.name == "&&") {
      Choices both;
      for (auto& a : left) {
        for (auto& b : right) both.add(joined(e, a, b));
      }
      left = kj::mv(both);
    } else {
      for (auto& each : right) left.add(kj::mv(each));
    }
    if (left.size() > kMostChoices) wrong(e, "too many alternatives");
    return left;
  }
  if (e.isCall("==")) {
    bool swapped = e.parts[0].kind == Kind::kText;
    auto field = property(e.parts[swapped ? 1 : 0]);
    return one(field, kj::str(plain(e.parts[swapped ? 0 : 1])));
  }
  if (e.isCall("glob") && !e.isMethod && e.parts.size() == 2) {
    auto pattern = quoted(e.parts[0]);
    return one(property(e.parts[1]), kj::str(pattern));
  }
  for (auto& method : kMethods) {
    if (!e.isCall(method.name) || !e.isMethod || e.parts.size() != 2) continue;
    auto field = property(e.parts[0]);
    auto value = plain(e.parts[1]);
    return one(field, kj::str(method.before ? "*" : "", value, method.after ? "*" : ""));
  }
  property(e);  // reports all but a property
  wrong(e, "expected ==, startsWith, endsWith or contains");
}

}  // namespace

LinkSelector parseLinkSelector(kj::StringPtr text) {
  LinkSelector result;
  auto parsed = cel::parse(text);
  if (parsed.mistake == nullptr) {
    try {
      result.any = choicesOf(parsed.expression);
    } catch (cel::Mistake& mistake) {
      parsed.mistake = kj::mv(mistake);
    }
  }
  KJ_IF_MAYBE (mistake, parsed.mistake) {
    result.problem = kj::str("in the selector, ", cel::render(text, *mistake));
  }
  return result;
}

}  // namespace talos::config
