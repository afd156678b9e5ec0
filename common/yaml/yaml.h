// YAML text as trees of nodes with places, which common/yaml/yaml-codec.h decodes and writes.
//
// yaml-cpp parses and reports events; the tree is ours, so that every limit is enforced while the
// text is read and not only after a bomb has expanded. Aliases share nodes: a tree is as large as
// its text, and its expanded size is counted and limited. JSON is read by the same parser.
#pragma once

#include <kj/arena.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/yaml/yaml-codec.h"

namespace talos::codec {

// Limit of the texts of a stream, counting repetitions by aliases: a copy of them needs no more
// memory.
constexpr size_t kMaxExpandedBytes = 4 * kMaxDocumentBytes;

struct YamlNode;

struct Entry {
  kj::String key;
  Place place;
  const YamlNode* value;  // null if a writer has only the comment
  kj::StringPtr comment;  // written above the key; may have several lines
  size_t begin = 0;       // of a parsed entry: place of its key in the source
};

// A node. Its text is zeroed at the end, because it may be a secret.
struct YamlNode {
  // kRaw is only written: YAML text of a node of any shape.
  enum class Kind { kNull, kScalar, kSequence, kMapping, kRaw };
  Kind kind = Kind::kNull;
  bool plain = false;  // a scalar without quotes
  Place place;
  kj::String text;
  kj::Vector<const YamlNode*> items;
  kj::Vector<Entry> entries;

  // Fields of a parsed node:
  bool selfContained =
      true;  // block style, no anchor, alias or tag in it: its source is valid by itself
  size_t begin = 0, end = 0;  // bytes of the source, up to the node after it
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

// Documents of one stream, and the text to which their nodes point.
class YamlStream {
 public:
  // Reports at most one syntax problem, as the text after it cannot be interpreted. A stream that
  // is refused holds the documents before the problem.
  YamlStream(kj::ArrayPtr<const char> text, kj::StringPtr file, Problems& problems);
  KJ_DISALLOW_COPY_AND_MOVE(YamlStream);

  kj::ArrayPtr<const YamlNode* const> documents() const { return roots; }
  // Returns the text without a byte order mark; the nodes' offsets refer to it.
  kj::ArrayPtr<const char> text() const { return source; }

  // Return, for readers that correct the text before they decode it, a node to change, which all
  // its aliases share, and a new one.
  YamlNode& edit(const YamlNode& node) { return const_cast<YamlNode&>(node); }
  YamlNode& make() { return arena.allocate<YamlNode>(); }

  // Returns the text of a parsed node as a separate document: its source with indentation removed,
  // including comments, or, if the source is not valid by itself (flow style, aliases), the same
  // value rewritten.
  kj::String textOf(const YamlNode& node) const;

 private:
  kj::ArrayPtr<const char> source;
  kj::Arena arena;
  kj::Vector<const YamlNode*> roots;
};

// Does the same as readYaml() for one document of a stream.
bool readNode(const YamlStream& stream, const YamlNode& node, capnp::DynamicStruct::Builder target,
              Problems& problems, const ReadOptions& options = {}, Places* places = nullptr);

// Return a struct, or one field of it, as the nodes that writeYaml() and writeJson() write.
// Programs that write YAML alone are linked without what reads $raw text for JSON.
kj::Own<const YamlNode> treeOf(capnp::DynamicStruct::Reader value,
                               const WriteOptions& options = {});
kj::Own<const YamlNode> treeOf(capnp::DynamicStruct::Reader value, capnp::StructSchema::Field field,
                               const WriteOptions& options = {});

// Type of a plain scalar (YAML 1.2 core schema; integers also with 0x, 0o, 0b or a leading 0).
enum class ScalarType { kNull, kBool, kInteger, kFloat, kText };
ScalarType scalarType(kj::StringPtr plain);
// Parses YAML 1.1 spellings of true and false.
kj::Maybe<bool> parseBool(kj::StringPtr text);
// Sign and magnitude of an integer; nullptr for a text that is not an integer or is larger than 64
// bits.
struct Integer {
  bool negative;
  uint64_t magnitude;
};
kj::Maybe<Integer> parseInteger(kj::StringPtr text);

// Returns true for YAML text of more than one document; those of nothing but comments do not count.
bool hasSeveralDocuments(kj::StringPtr text);

kj::String renderYaml(const YamlNode& node, unsigned indent, unsigned startColumn);
// Returns `key:` and the node after it or below it.
kj::String renderYamlEntry(kj::StringPtr key, const YamlNode& node, unsigned indent,
                           unsigned startColumn);
// Returns the same for YAML text of a node of any shape.
kj::String renderRawEntry(kj::StringPtr key, kj::StringPtr text, unsigned indent,
                          unsigned startColumn);
kj::String renderJson(const YamlNode& node, unsigned indent);

}  // namespace talos::codec
