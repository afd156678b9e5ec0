// YAML text as trees of nodes with places: what common/yaml/yaml-codec.h decodes and writes.
//
// Parsing is yaml-cpp's, through its events; the tree is ours, so that every limit is enforced
// while the text is read and not after a bomb has gone off. Aliases share nodes: a tree is as large
// as its text, and what it would expand to is counted and limited. JSON is read by the same parser.
#pragma once

#include <kj/arena.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/yaml/yaml-codec.h"

namespace talos::codec {

// Texts of a stream, with those that aliases repeat: who copies them needs no more.
constexpr size_t kMaxExpandedBytes = 4 * kMaxDocumentBytes;

struct YamlNode;

struct Entry {
  kj::String key;
  Place place;
  const YamlNode* value;  // null, for a writer: there is only the comment
  kj::StringPtr comment;  // written above the key; may have several lines
  size_t begin = 0;       // of a parsed entry: where its key is in the source
};

// Its text is zeroed at the end: it may be a secret.
struct YamlNode {
  // kRaw is only written: YAML text of a node of any shape.
  enum class Kind { kNull, kScalar, kSequence, kMapping, kRaw };
  Kind kind = Kind::kNull;
  bool plain = false;  // a scalar that was or is to be written without quotes
  Place place;
  kj::String text;
  kj::Vector<const YamlNode*> items;
  kj::Vector<Entry> entries;

  // Of a parsed node:
  bool selfContained =
      true;  // block style, no anchor, alias or tag in it: its source is valid by itself
  size_t begin = 0, end = 0;  // bytes of the source, up to the node behind it
  bool flow = false;          // written in brackets or braces
  bool decorated = false;     // with an anchor or a tag
  bool merged = false;        // has entries of other mappings, by "<<"
  size_t size = 1;            // nodes in it, aliases expanded
  size_t bytes = 0;           // of the texts and keys in it, aliases expanded
  unsigned height = 1;        // levels in it, aliases expanded

  YamlNode() = default;
  ~YamlNode() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(YamlNode);
};

// The documents of one stream, and the text that their nodes point into.
class YamlStream {
 public:
  // Finds one syntax problem at most: behind it nothing means what it seems to. A stream that is
  // refused holds the documents before the problem.
  YamlStream(kj::ArrayPtr<const char> text, kj::StringPtr file, Problems& problems);
  KJ_DISALLOW_COPY_AND_MOVE(YamlStream);

  kj::ArrayPtr<const YamlNode* const> documents() const { return roots; }
  // The text without a byte order mark, which the nodes' offsets refer to.
  kj::ArrayPtr<const char> text() const { return source; }

  // For readers that correct what was written before they decode it: a node to change, which all
  // its aliases share, and a new one.
  YamlNode& edit(const YamlNode& node) { return const_cast<YamlNode&>(node); }
  YamlNode& make() { return arena.allocate<YamlNode>(); }

  // The text of a parsed node on its own: its source with indentation removed, comments and all,
  // or, where the source is not valid by itself (flow style, aliases), the same value rewritten.
  kj::String textOf(const YamlNode& node) const;

 private:
  kj::ArrayPtr<const char> source;
  kj::Arena arena;
  kj::Vector<const YamlNode*> roots;
};

// readYaml() for one document of a stream.
bool readNode(const YamlStream& stream, const YamlNode& node, capnp::DynamicStruct::Builder target,
              Problems& problems, const ReadOptions& options = {}, Places* places = nullptr);

// The type of a plain scalar (YAML 1.2 core schema; integers also with 0x, 0o, 0b or a leading 0).
enum class ScalarType { kNull, kBool, kInteger, kFloat, kText };
ScalarType scalarType(kj::StringPtr plain);
// YAML 1.1 spellings of true and false.
kj::Maybe<bool> parseBool(kj::StringPtr text);
// Sign and magnitude; none when it is no integer or larger than 64 bits.
struct Integer {
  bool negative;
  uint64_t magnitude;
};
kj::Maybe<Integer> parseInteger(kj::StringPtr text);

kj::String renderYaml(const YamlNode& node, unsigned indent, unsigned startColumn);
// `key:` and the node behind it or below it.
kj::String renderYamlEntry(kj::StringPtr key, const YamlNode& node, unsigned indent,
                           unsigned startColumn);
kj::String renderJson(const YamlNode& node, unsigned indent);

}  // namespace talos::codec
