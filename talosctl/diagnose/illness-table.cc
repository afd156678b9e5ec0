#include "talosctl/diagnose/illness-table.h"

#include <kj/debug.h>

#include <algorithm>
#include <utility>

namespace talos::talosctl {
namespace {

using enum Certainty;

struct Place {
  const Check& check;
  const IllnessRow& row;
};
Place placeOf(Illness id) {
  for (auto& check : allChecks()) {
    for (auto& row : check.illnesses) {
      if (row.id == id) return {check, row};
    }
  }
  KJ_UNREACHABLE;
}

}  // namespace

kj::ArrayPtr<const Check> allChecks() {
#define LIST(...) {__VA_ARGS__}
#define ILLNESS(id, certainty, cause, remedy, ...) \
  {                                                \
    Illness::id, certainty, cause, remedy, {       \
      __VA_ARGS__                                  \
    }                                              \
  }
#define CHECK(name, layer, needs, because, evidence, ...) \
  {name, layer, needs, because, evidence, {__VA_ARGS__}},
  static const Check kChecks[] = {
#include "talosctl/diagnose/illnesses.inc"
  };
#undef CHECK
#undef ILLNESS
#undef LIST
  return kChecks;
}

Finding::Finding(const Check& check, const IllnessRow& row)
    : check(check),
      row(row),
      certain(row.certainty == kCertain),
      place(&check),
      remedyText(row.remedy) {}

Finding& Finding::on(kj::StringPtr address) {
  nodes.add(kj::str(address));
  return nodes.size() == 1 ? with("node", address) : *this;
}

Finding& Finding::with(kj::StringPtr name, kj::StringPtr value, uint64_t time) {
  values.add(Value{kj::str(name), kj::str(value), time});
  return *this;
}

Finding& Finding::with(const Statement& statement) {
  return with("source", statement.source).with("statement", statement.text, statement.time);
}

Finding& Finding::shows(kj::StringPtr source, kj::StringPtr text, uint64_t time) {
  if (text.size() > 0) evidence.add(Evidence{kj::str(source), kj::str(text), time});
  return *this;
}

Finding& Finding::certainIf(bool isCertain) {
  certain = isCertain;
  return *this;
}

Finding& Finding::useRemedy(kj::StringPtr remedy) {
  remedyText = remedy;
  return *this;
}

Finding::Filled Finding::fill(kj::StringPtr text) const {
  Filled filled;
  kj::Vector<kj::String> parts;
  while (text.size() > 0) {
    auto open = text.findFirst('{').orDefault(text.size());
    auto end = open + 1;
    while (end < text.size() && text[end] >= 'a' && text[end] <= 'z') ++end;
    bool named = end < text.size() && text[end] == '}';
    // Braces that enclose no name are kept: JSON in a command has braces as well.
    if (!named) end = kj::min(open, text.size() - 1);
    parts.add(kj::str(text.slice(0, named ? open : end + 1)));
    if (named) {
      auto name = text.slice(open + 1, end);
      bool found = false;
      for (auto& value : values) {
        if (value.name.asArray() != name) continue;
        parts.add(kj::str(value.text));
        filled.time = kj::max(filled.time, value.time);
        found = true;
      }
      KJ_REQUIRE(found || name == "node"_kj.asArray(), "a placeholder has no value", row.cause,
                 name);
      filled.known = filled.known && found;
    }
    text = text.slice(end + 1);
  }
  filled.text = kj::strArray(parts, "");
  return filled;
}

void Finding::addEvidence(std::initializer_list<EvidenceRow> rows) {
  for (auto& one : rows) {
    auto source = fill(one.source), text = fill(one.text);
    if (source.known && text.known) shows(source.text, text.text, text.time);
  }
}

Finding& Finding::notBecause(std::initializer_list<kj::StringPtr> checks) {
  unrelated.addAll(checks);
  return *this;
}

Finding& Finding::isItsOwnCause() {
  ownCause = true;
  return *this;
}

Finding& Finding::precedes(kj::StringPtr name) {
  for (auto& one : allChecks()) {
    if (one.name == name) place = &one;
  }
  isEarly = true;
  return *this;
}

Finding& Finding::alsoBecause(std::initializer_list<kj::StringPtr> checks) {
  moreCauses.addAll(checks);
  return *this;
}

void Finding::render() {
  cause = fill(row.cause).text;
  auto more = kj::mv(evidence);
  addEvidence(check.evidence);
  addEvidence(row.evidence);
  for (auto& one : more) evidence.add(kj::mv(one));
}

bool Finding::isSameAs(const Finding& other) const {
  return &row == &other.row && cause == other.cause && parent == other.parent && nodes.size() > 0 &&
         other.nodes.size() == 1;
}

void Finding::absorb(Finding& other) {
  for (auto& node : other.nodes) nodes.add(kj::mv(node));
  for (auto& one : other.evidence) evidence.add(kj::mv(one));
  certain = certain && other.certain;
  for (auto& value : values) {
    if (value.name == "node") value.text = kj::strArray(nodes, ",");
  }
}

kj::String Finding::remedy() const {
  auto filled = fill(remedyText);
  return filled.known ? kj::mv(filled.text) : kj::String();
}

Finding& Findings::add(Illness id) {
  auto place = placeOf(id);
  return *all.add(kj::heap<Finding>(place.check, place.row));
}

kj::Vector<kj::Own<Finding>> Findings::finish() {
  std::stable_sort(all.begin(), all.end(), [](auto& one, auto& other) {
    return std::pair(one->place, !one->isEarly) < std::pair(other->place, !other->isEarly);
  });
  for (auto& finding : all) finding->render();
  return kj::mv(all);
}

}  // namespace talos::talosctl
