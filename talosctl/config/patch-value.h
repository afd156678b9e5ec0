// The parts of talosctl/config/patch.h: documents as trees that can be changed, the operations of
// patches, and the conversion back to text. Pure.
#pragma once

#include <kj/arena.h>
#include <kj/memory.h>

#include <vector>

#include "common/yaml/yaml.h"
#include "talosctl/config/patch.h"

namespace talos::patch {

using codec::YamlNode;
using Kind = codec::YamlNode::Kind;

struct Member;

// A node that can be changed. Its texts live in the streams that it was made from, or in a Texts.
struct Value {
  Kind kind = Kind::kNull;
  bool plain = false;
  kj::StringPtr text;
  std::vector<Member> members;  // of a mapping or a sequence

  const YamlNode* origin = nullptr;  // what it was read from
  bool touched = false;              // it or something below it is not as it was read

  size_t size() const;      // nodes in it
  size_t bytes() const;     // of their texts and keys
  unsigned height() const;  // levels in it
};

struct Member {
  kj::StringPtr key;  // empty in a sequence
  kj::Own<Value> value;
};

using Texts = kj::Arena;

kj::Own<Value> valueOf(const YamlNode& node);
kj::Own<Value> clone(const Value& value);  // knows no origin

kj::Maybe<size_t> find(const Value& mapping, kj::StringPtr key);

// The same for every reader of YAML, whatever the field's type is.
bool isSame(const Value& a, const Value& b);
// Equal by RFC 6902, section 4.6: numbers by their value, mappings in any order.
bool isEqual(const Value& a, const Value& b);

// Why a change cannot be made.
struct Refusal {
  codec::Place place;  // in the patch
  kj::String path, message, hint;
};

// Limits the work of one patch, so that copies of copies come to an end.
class Budget {
 public:
  void spend(size_t steps);  // throws Refusal

 private:
  size_t left = 20'000'000;
};

// Apply the patch, or throw a Refusal. Operations that can never be valid are all reported first,
// and nothing is done.
bool applyOperations(kj::Own<Value>& document, const YamlNode& patch, Texts& texts, Budget& budget,
                     Problems& problems, const PatchNames& names);
void mergeDocument(kj::Own<Value>& document, const YamlNode& patch, Budget& budget);

// The source with the text of `was` changed to that of `now`. It is a proposal: the caller checks
// that it means `now`.
struct Region {
  kj::ArrayPtr<const char> source;
  size_t begin, end;  // of the document in it
};
kj::String splice(const codec::YamlStream& stream, Region region, const Value& was,
                  const Value& now);
// The same with the whole document rewritten.
kj::String rewrite(const codec::YamlStream& stream, Region region, const Value& was,
                   const Value& now, bool keepText);

}  // namespace talos::patch
