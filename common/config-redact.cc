#include "common/config-redact.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/annotation.h"
#include "common/yaml-source.h"
#include "rpc/config.capnp.h"

namespace talos::config {
namespace {

using capnp::StructSchema;
using codec::YamlNode;
using codec::YamlStream;
using Kind = YamlNode::Kind;

constexpr kj::StringPtr kHidden = "***"_kj;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

// For keys that the schema does not have.
bool soundsSecret(kj::ArrayPtr<const char> key) {
  std::string word;
  for (char c : key) word += lower(c);
  if (word == "key" || word == "auth" || word == "authorization") return true;
  for (auto part : {"secret", "token", "password", "passphrase", "privatekey", "passwd"}) {
    if (word.find(part) != word.npos) return true;
  }
  return false;
}

// The values to hide in one text.
class Finder {
 public:
  struct Secret {
    const YamlNode* node;
    std::string path;
  };
  std::vector<Secret> secrets;
  std::vector<const YamlNode*> others;  // texts that are no secret as a whole

  void document(const YamlNode& root, size_t number) {
    auto path = std::to_string(number);
    if (root.kind == Kind::kMapping)
      mapping(root, capnp::Schema::from<Config>(), path);
    else
      unknown(root, path, false);
  }

 private:
  void mapping(const YamlNode& node, kj::Maybe<StructSchema> schema, const std::string& path) {
    for (auto& entry : node.entries) {
      auto below = path + "/" + entry.key.cStr();
      KJ_IF_MAYBE (s, schema) {
        KJ_IF_MAYBE (f, fieldFor(entry.key, *s)) {
          field(*entry.value, *f, below);
          continue;
        }
      }
      unknown(*entry.value, below, soundsSecret(entry.key));
    }
  }

  static kj::Maybe<StructSchema::Field> fieldFor(kj::StringPtr key, StructSchema schema) {
    for (auto field : schema.getFields()) {
      if (annotation::isCalled(field, key)) return field;
    }
    return nullptr;
  }

  void field(const YamlNode& node, StructSchema::Field field, const std::string& path) {
    if (annotation::has(field, annotation::kSecret)) return unknown(node, path, true);
    auto type = field.getType();
    if (type.isList() && annotation::has(field, annotation::kMap)) {
      auto value = type.asList().getElementType().asStruct().getFieldByName("value");
      for (auto& entry : node.entries) {
        auto below = path + "/" + entry.key.cStr();
        if (value.getType().isText())
          unknown(*entry.value, below, soundsSecret(entry.key));
        else
          this->field(*entry.value, value, below);
      }
    } else if (type.isList() && type.asList().getElementType().isStruct()) {
      auto schema = type.asList().getElementType().asStruct();
      for (size_t i = 0; i < node.items.size(); ++i)
        mapping(*node.items[i], schema, path + "/" + std::to_string(i));
    } else if (type.isStruct() && node.kind == Kind::kMapping) {
      mapping(node, type.asStruct(), path);
    } else {
      unknown(node, path, false);
    }
  }

  void unknown(const YamlNode& node, const std::string& path, bool secret) {
    if (node.kind == Kind::kScalar) {
      if (secret)
        secrets.push_back({&node, path});
      else
        others.push_back(&node);
    }
    for (auto& entry : node.entries) {
      unknown(*entry.value, path + "/" + entry.key.cStr(), secret || soundsSecret(entry.key));
    }
    for (size_t i = 0; i < node.items.size(); ++i)
      unknown(*node.items[i], path + "/" + std::to_string(i), secret);
  }
};

class Redactor {
 public:
  explicit Redactor(kj::ArrayPtr<const char> source) : stream(source, "", problems) {
    if (problems.size() > 0) return;
    Finder finder;
    for (size_t i = 0; i < stream.documents().size(); ++i)
      finder.document(*stream.documents()[i], i);
    secrets = kj::mv(finder.secrets);
    others = kj::mv(finder.others);
    readable = true;
  }

  const std::vector<Finder::Secret>& found() const { return secrets; }

  kj::String write(const std::map<std::string, kj::StringPtr>& marks = {}) {
    if (!readable) return kj::str("*** (this text is no YAML and not shown)\n");
    for (auto& secret : secrets) {
      auto mark = marks.find(secret.path);
      hide(*secret.node, mark == marks.end() ? kHidden : mark->second);
    }
    for (auto* node : others) hidePassword(*node);
    hideInComments();
    return assemble();
  }

 private:
  struct Cut {
    size_t begin, end;
    kj::StringPtr mark;
  };

  Problems problems;
  YamlStream stream;
  bool readable = false;
  std::vector<Finder::Secret> secrets;
  std::vector<const YamlNode*> others;
  std::vector<Cut> cuts;

  // Where a node's own text ends. When that cannot be told, up to the next node.
  size_t endOf(const YamlNode& node) const {
    codec::SourceText source(stream.text(), stream.text().size());
    try {
      return source.endOf(node, node.begin);
    } catch (codec::Unclear&) {
      return std::max(std::min(node.end, source.end), source.lineEnd(node.begin));
    }
  }

  void hide(const YamlNode& node, kj::StringPtr mark) {
    if (node.text.size() > 0) cuts.push_back({node.begin, endOf(node), mark});
  }

  // scheme://user:password@host
  void hidePassword(const YamlNode& node) {
    std::string_view value(node.text.begin(), node.text.size());
    if (value.find("://") == value.npos) return;
    auto text = stream.text();
    size_t end = endOf(node);
    for (size_t i = node.begin; i + 3 <= end; ++i) {
      if (text.slice(i, i + 3) != "://"_kj.asArray()) continue;
      size_t user = i + 3, colon = 0, k = user;
      auto ends = [](char c) { return c == '/' || c == ' ' || c == '\n' || c == '"' || c == '\''; };
      for (; k < end && text[k] != '@' && !ends(text[k]); ++k) {
        if (text[k] == ':' && colon == 0) colon = k;
      }
      if (k < end && text[k] == '@') cuts.push_back({colon == 0 ? user : colon + 1, k, kHidden});
      i = user;
    }
  }

  // "# token: …"
  void hideInComments() {
    auto text = stream.text();
    for (size_t i = 0; i < text.size();) {
      size_t last = std::find(text.begin() + i, text.end(), '\n') - text.begin();
      size_t k = i;
      while (k < last && (text[k] == ' ' || text[k] == '\t')) ++k;
      if (k < last && text[k] == '#') {
        while (k < last && (text[k] == '#' || text[k] == ' ' || text[k] == '-')) ++k;
        size_t colon = std::find(text.begin() + k, text.begin() + last, ':') - text.begin();
        auto word = text.slice(k, colon);
        bool key = std::find(word.begin(), word.end(), ' ') == word.end() && soundsSecret(word);
        if (key && colon + 2 < last && text[colon + 1] == ' ')
          cuts.push_back({colon + 2, last, kHidden});
      }
      i = last + 1;
    }
  }

  kj::String assemble() {
    std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    auto text = stream.text();
    kj::Vector<char> out(text.size() + 64);
    size_t done = 0;
    for (auto& cut : cuts) {
      if (cut.begin < done) continue;  // in another one
      out.addAll(text.slice(done, cut.begin));
      addHidden(out, text.slice(cut.begin, cut.end), cut.mark);
      done = cut.end;
    }
    out.addAll(text.slice(done, text.size()));
    out.add('\0');
    return kj::String(out.releaseAsArray());
  }

  // The mark in each line; the head of a block scalar tells nothing.
  static void addHidden(kj::Vector<char>& out, kj::ArrayPtr<const char> secret,
                        kj::StringPtr mark) {
    bool first = true, block = secret.size() > 0 && (secret[0] == '|' || secret[0] == '>');
    for (size_t i = 0; i < secret.size();) {
      size_t last = std::find(secret.begin() + i, secret.end(), '\n') - secret.begin();
      size_t k = i;
      while (k < last && secret[k] == ' ') ++k;
      out.addAll(secret.slice(i, k));
      if (first && block)
        out.addAll(secret.slice(k, last));
      else if (k < last)
        out.addAll(mark);
      if (last < secret.size()) out.add('\n');
      first = false;
      i = last + 1;
    }
  }
};

}  // namespace

kj::String redact(kj::ArrayPtr<const char> source) {
  return Redactor(source).write();
}

RedactedPair redact(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to) {
  Redactor before(from), after(to);
  std::map<std::string, kj::StringPtr> values, old, changed;
  for (auto& secret : before.found()) values.emplace(secret.path, secret.node->text);
  for (auto& secret : after.found()) {
    auto found = values.find(secret.path);
    if (found == values.end() || found->second == secret.node->text) continue;
    old.emplace(secret.path, "*** (old)"_kj);
    changed.emplace(secret.path, "*** (new)"_kj);
  }
  return {before.write(old), after.write(changed)};
}

}  // namespace talos::config
