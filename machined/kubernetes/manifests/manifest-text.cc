#include "machined/kubernetes/manifests/manifest-text.h"

#include <kj/debug.h>

#include "common/yaml/yaml-codec.h"

namespace talos::machined {
namespace {

kj::ArrayPtr<const char> withoutIndentation(kj::ArrayPtr<const char> line) {
  while (line.size() > 0 && line[0] == ' ') line = line.slice(1, line.size());
  return line;
}

bool beginsWith(kj::ArrayPtr<const char> text, kj::StringPtr prefix) {
  return text.size() >= prefix.size() && text.slice(0, prefix.size()) == prefix.asArray();
}

void addLine(kj::Vector<char>& out, kj::ArrayPtr<const char> line) {
  out.addAll(line);
  out.add('\n');
}

}  // namespace

ManifestText& ManifestText::set(kj::StringPtr name, kj::StringPtr value) {
  values.insert(kj::str(name), kj::str(value));
  return *this;
}

ManifestText& ManifestText::set(kj::StringPtr name, kj::Vector<kj::String> items) {
  lists.insert(kj::str(name), kj::mv(items));
  return *this;
}

kj::StringPtr ManifestText::valueOf(kj::ArrayPtr<const char> name) const {
  auto key = kj::heapString(name);
  return KJ_REQUIRE_NONNULL(values.find(key), "a manifest uses an unknown value", key);
}

kj::String ManifestText::filled(kj::ArrayPtr<const char> line) const {
  kj::Vector<char> out;
  for (size_t i = 0; i < line.size(); ++i) {
    bool opens = (line[i] == '$' || line[i] == '@') && i + 1 < line.size() && line[i + 1] == '{';
    if (!opens) {
      out.add(line[i]);
      continue;
    }
    size_t end = i + 2;
    while (end < line.size() && line[end] != '}') ++end;
    KJ_REQUIRE(end < line.size(), "a value of a manifest has no end");
    auto value = valueOf(line.slice(i + 2, end));
    if (line[i] == '$') {
      out.addAll(codec::yamlScalar(value));
    } else {
      KJ_REQUIRE(value.findFirst('\n') == nullptr, "a value inside a block has a line break");
      out.addAll(value);
    }
    i = end;
  }
  return kj::heapString(out.asPtr());
}

bool ManifestText::addList(kj::Vector<char>& out, kj::ArrayPtr<const char> line) const {
  auto content = withoutIndentation(line);
  constexpr kj::StringPtr kBegin = "- ${"_kj, kEnd = "*}"_kj;
  if (!beginsWith(content, kBegin)) return false;
  if (content.size() < kBegin.size() + kEnd.size() ||
      content.slice(content.size() - kEnd.size(), content.size()) != kEnd.asArray()) {
    return false;
  }
  auto name = kj::heapString(content.slice(kBegin.size(), content.size() - kEnd.size()));
  auto& items = KJ_REQUIRE_NONNULL(lists.find(name), "a manifest uses an unknown list", name);
  auto indentation = line.slice(0, line.size() - content.size());
  for (auto& item : items) {
    out.addAll(indentation);
    addLine(out, kj::str("- ", codec::yamlScalar(item)));
  }
  return true;
}

kj::String ManifestText::fill() const {
  kj::Vector<char> out;
  kj::Vector<bool> shown;  // for each open condition
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') continue;
    auto line = text.slice(begin, i);
    begin = i + 1;
    auto content = withoutIndentation(line);
    if (beginsWith(content, "#if ")) {
      bool there = valueOf(content.slice(4, content.size())).size() > 0;
      shown.add(there && (shown.empty() || shown.back()));
    } else if (beginsWith(content, "#end")) {
      KJ_REQUIRE(!shown.empty(), "#end without #if in a manifest");
      shown.removeLast();
    } else if (shown.empty() || shown.back()) {
      if (!addList(out, line)) addLine(out, filled(line));
    }
  }
  KJ_REQUIRE(shown.empty(), "#if without #end in a manifest");
  return kj::heapString(out.asPtr());
}

}  // namespace talos::machined
