#include "common/config/config-redact.h"

#include <kj/debug.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/annotation.h"
#include "common/base/url-secrets.h"
#include "common/memory/zeroize.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml-source.h"
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

// Decides for keys that the schema does not have.
bool soundsSecret(kj::ArrayPtr<const char> key) {
  std::string name;
  for (char c : key) name += lower(c);
  for (auto whole : {"key", "auth", "authorization", "content", "contents", "env", "environment",
                     "headers", "manifest", "variables"}) {
    if (name == whole) return true;
  }
  for (auto part :
       {"secret", "token", "password", "passphrase", "privatekey", "presharedkey", "passwd"}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

// Returns the queries and fragments of URLs in a text.
std::vector<TextRange> urlQueries(kj::ArrayPtr<const char> text) {
  std::vector<TextRange> found;
  auto ends = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\'' || c == '\\';
  };
  for (size_t i = 0; i + 3 <= text.size(); ++i) {
    if (text[i] != ':' || text[i + 1] != '/' || text[i + 2] != '/') continue;
    size_t end = i + 3, query = 0;
    for (; end < text.size() && !ends(text[end]); ++end) {
      if (query == 0 && (text[end] == '?' || text[end] == '#')) query = end + 1;
    }
    if (query > 0 && query < end) found.push_back({query, end});
    i = end - 1;
  }
  return found;
}

// Numbers for paths in documents: the same path has the same number in two documents. The keys
// point into the documents, which must live longer.
class Paths {
 public:
  using Path = size_t;

  Path below(Path parent, kj::StringPtr key) {
    return byKey.try_emplace({parent, {key.begin(), key.size()}}, count() + 1).first->second;
  }
  Path below(Path parent, size_t index) {
    return byIndex.try_emplace({parent, index}, count() + 1).first->second;
  }

 private:
  std::map<std::pair<Path, std::string_view>, Path> byKey;
  std::map<std::pair<Path, size_t>, Path> byIndex;
  size_t count() const { return byKey.size() + byIndex.size(); }
};

// The values to hide in one text.
class Finder {
 public:
  using Path = Paths::Path;
  struct Secret {
    const YamlNode* node;
    Path path;
  };
  explicit Finder(Paths& paths) : paths(paths) {}
  std::vector<Secret> secrets;
  std::vector<Secret> others;  // texts that are not secret as a whole

  void document(const YamlNode& root, size_t number) {
    auto path = paths.below(0, number);
    if (root.kind == Kind::kMapping)
      mapping(root, capnp::Schema::from<Config>(), path);
    else
      unknown(root, path, false);
  }

 private:
  Paths& paths;

  void mapping(const YamlNode& node, kj::Maybe<StructSchema> schema, Path path) {
    for (auto& entry : node.entries) {
      auto below = paths.below(path, entry.key);
      KJ_IF_MAYBE (s, schema) {
        KJ_IF_MAYBE (f, annotation::fieldCalled(*s, entry.key)) {
          field(*entry.value, *f, below);
          continue;
        }
      }
      unknown(*entry.value, below, soundsSecret(entry.key));
    }
  }

  void field(const YamlNode& node, StructSchema::Field field, Path path) {
    if (annotation::has(field, annotation::kSecret)) return unknown(node, path, true);
    auto type = field.getType();
    if (type.isList() && annotation::has(field, annotation::kMap)) {
      auto value = type.asList().getElementType().asStruct().getFieldByName("value");
      for (auto& entry : node.entries) {
        auto below = paths.below(path, entry.key);
        if (value.getType().isText())
          unknown(*entry.value, below, soundsSecret(entry.key));
        else
          this->field(*entry.value, value, below);
      }
    } else if (type.isList() && type.asList().getElementType().isStruct()) {
      auto schema = type.asList().getElementType().asStruct();
      for (size_t i = 0; i < node.items.size(); ++i)
        mapping(*node.items[i], schema, paths.below(path, i));
    } else if (type.isStruct() && node.kind == Kind::kMapping) {
      mapping(node, type.asStruct(), path);
    } else {
      unknown(node, path, false);
    }
  }

  void unknown(const YamlNode& node, Path path, bool secret) {
    if (node.kind == Kind::kScalar) {
      if (secret)
        secrets.push_back({&node, path});
      else
        others.push_back({&node, path});
    }
    for (auto& entry : node.entries) {
      unknown(*entry.value, paths.below(path, entry.key), secret || soundsSecret(entry.key));
    }
    for (size_t i = 0; i < node.items.size(); ++i)
      unknown(*node.items[i], paths.below(path, i), secret);
  }
};

class Redactor {
 public:
  Redactor(kj::ArrayPtr<const char> source, Paths& paths) : stream(source, "", problems) {
    if (problems.size() > 0) return;
    Finder finder(paths);
    for (size_t i = 0; i < stream.documents().size(); ++i)
      finder.document(*stream.documents()[i], i);
    secrets = kj::mv(finder.secrets);
    others = kj::mv(finder.others);
    readable = true;
  }

  const std::vector<Finder::Secret>& found() const { return secrets; }
  const std::vector<Finder::Secret>& texts() const { return others; }

  kj::String write(const std::map<Paths::Path, kj::StringPtr>& marks = {}) {
    if (!readable) return kj::str("*** (not valid YAML, not shown)\n");
    auto markOf = [&](const Finder::Secret& one) {
      auto mark = marks.find(one.path);
      return mark == marks.end() ? kHidden : mark->second;
    };
    for (auto& secret : secrets) hide(*secret.node, markOf(secret));
    for (auto& text : others) {
      hideRanges(*text.node, [](auto part) { return urlPasswords(part); }, markOf(text));
      hideRanges(*text.node, urlQueries, markOf(text));
    }
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
  std::vector<Finder::Secret> others;
  std::vector<Cut> cuts;

  // Returns the end of a node's own text, or the start of the next node if it cannot be found.
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

  // Hides parts of URLs in a text. If the source writes the text differently (escapes), all of it
  // is hidden.
  template <typename Find>
  void hideRanges(const YamlNode& node, Find&& find, kj::StringPtr mark) {
    auto meant = find(node.text.asArray());
    if (meant.empty()) return;
    size_t end = endOf(node);
    auto written = find(stream.text().slice(node.begin, end));
    if (written.size() != meant.size()) return hide(node, mark);
    for (auto [begin, stop] : written)
      cuts.push_back({node.begin + begin, node.begin + stop, mark});
  }

  // Hides "# token: …", and below "# content: |" the text that is indented further.
  void hideInComments() {
    constexpr size_t kNowhere = SIZE_MAX;
    auto text = stream.text();
    size_t secretColumn = kNowhere;  // of the key of which the value is looked at
    for (size_t i = 0; i < text.size();) {
      size_t next = std::find(text.begin() + i, text.end(), '\n') - text.begin() + 1;
      size_t k = i, last = next - 1;
      if (last > i && text[last - 1] == '\r') --last;
      while (k < last && (text[k] == ' ' || text[k] == '\t')) ++k;
      if (k < last && text[k] == '#') {
        for (auto [begin, stop] : urlPasswords(text.slice(k, last)))
          cuts.push_back({k + begin, k + stop, kHidden});
        for (auto [begin, stop] : urlQueries(text.slice(k, last)))
          cuts.push_back({k + begin, k + stop, kHidden});
        while (k < last && (text[k] == '#' || text[k] == ' ' || text[k] == '-')) ++k;
        if (k < last && k - i <= secretColumn) secretColumn = kNowhere;
        if (secretColumn != kNowhere) cuts.push_back({k, last, kHidden});
        size_t colon = std::find(text.begin() + k, text.begin() + last, ':') - text.begin();
        auto key = text.slice(k, colon);
        bool secret = std::find(key.begin(), key.end(), ' ') == key.end() && soundsSecret(key);
        bool below = colon + 2 >= last || text[colon + 2] == '|' || text[colon + 2] == '>';
        if (secret && below && colon < last) secretColumn = kj::min(secretColumn, k - i);
        if (secret && !below && text[colon + 1] == ' ') cuts.push_back({colon + 2, last, kHidden});
      } else {
        secretColumn = kNowhere;
      }
      i = next;
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
      cut.begin = std::max(cut.begin, done);  // it may start within another one
      if (cut.begin >= cut.end) continue;
      out.addAll(text.slice(done, cut.begin));
      addHidden(out, text.slice(cut.begin, cut.end), cut.mark);
      done = cut.end;
    }
    out.addAll(text.slice(done, text.size()));
    out.add('\0');
    return kj::String(out.releaseAsArray());
  }

  // Writes the mark in each line; the head of a block scalar contains no secret.
  static void addHidden(kj::Vector<char>& out, kj::ArrayPtr<const char> secret,
                        kj::StringPtr mark) {
    bool first = true, block = secret.size() > 0 && (secret[0] == '|' || secret[0] == '>');
    for (size_t i = 0; i < secret.size();) {
      size_t next = std::find(secret.begin() + i, secret.end(), '\n') - secret.begin() + 1;
      size_t k = i, last = next - 1;
      if (last > i && next <= secret.size() && secret[last - 1] == '\r') --last;
      while (k < last && secret[k] == ' ') ++k;
      out.addAll(secret.slice(i, k));
      if (first && block)
        out.addAll(secret.slice(k, last));
      else if (k < last)
        out.addAll(mark);
      if (next <= secret.size()) out.addAll(secret.slice(last, next));
      first = false;
      i = next;
    }
  }
};

// Returns true if the hidden parts of the URLs in two texts are the same.
bool sameHidden(kj::StringPtr one, kj::StringPtr other) {
  auto same = [&](auto find) {
    auto left = find(one.asArray()), right = find(other.asArray());
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [&](auto a, auto b) {
      return one.slice(a.begin, a.end) == other.slice(b.begin, b.end);
    });
  };
  return same([](auto text) { return urlPasswords(text); }) && same(urlQueries);
}

RedactedPair redactPair(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to) {
  Paths paths;
  Redactor before(from, paths), after(to, paths);
  std::map<Paths::Path, kj::StringPtr> values, old, changed;
  auto mark = [&](Paths::Path path) {
    old.emplace(path, "*** (old)"_kj);
    changed.emplace(path, "*** (new)"_kj);
  };
  for (auto& secret : before.found()) values.emplace(secret.path, secret.node->text);
  for (auto& secret : after.found()) {
    auto found = values.find(secret.path);
    if (found == values.end() || found->second == secret.node->text) continue;
    mark(secret.path);
  }
  std::map<Paths::Path, kj::StringPtr> texts;
  for (auto& text : before.texts()) texts.emplace(text.path, text.node->text);
  for (auto& text : after.texts()) {
    auto found = texts.find(text.path);
    if (found != texts.end() && !sameHidden(found->second, text.node->text)) mark(text.path);
  }
  return {before.write(old), after.write(changed)};
}

bool isJson(kj::ArrayPtr<const char> text) {
  for (char c : text) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c == '{';
  }
  return false;
}

// Returns nullptr for a text that is not a config.
kj::Maybe<kj::String> asYaml(kj::ArrayPtr<const char> text) {
  SecretMessage message;
  auto config = message.initRoot<Config>();
  Problems problems;
  if (!codec::readYaml(text, config, problems, {.unknownKeysAreWarnings = true})) return nullptr;
  return codec::writeYaml(config.asReader(), {.empties = codec::Empties::kOmit});
}

}  // namespace

kj::String redact(kj::ArrayPtr<const char> source) {
  Paths paths;
  return Redactor(source, paths).write();
}

RedactedPair redact(kj::ArrayPtr<const char> from, kj::ArrayPtr<const char> to) {
  if (isJson(from) != isJson(to)) {
    auto before = asYaml(from), after = asYaml(to);
    KJ_IF_MAYBE (b, before) {
      KJ_DEFER(zeroize(*b));
      KJ_IF_MAYBE (a, after) {
        KJ_DEFER(zeroize(*a));
        return redactPair(*b, *a);
      }
    }
  }
  return redactPair(from, to);
}

}  // namespace talos::config
