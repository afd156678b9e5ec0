// The one codec between YAML or JSON text and Cap'n Proto structs, by reflection.
//
// A key's name and default, and whether it is secret, base64, a mapping or raw text, are in
// the schema's annotations (rpc/annotations.capnp); no type has code of its own. JSON is read
// by the same parser (it is a subset of YAML 1.2) and written by the same walk.
//
// Reading never throws for bad text: every problem of the document is found in one pass and
// returned with line, column and path. Time and memory are bounded: documents over
// kMaxDocumentBytes, deeper than kMaxDepth, or with aliases that would expand to more than
// kMaxNodes are refused with a problem.
#pragma once

#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <capnp/schema.h>
#include <kj/map.h>

#include "common/base/problem.h"

namespace talos::codec {

constexpr size_t kMaxDocumentBytes = 4u << 20;
constexpr unsigned kMaxDepth = 64;
constexpr size_t kMaxNodes = 200'000;
constexpr size_t kMaxProblems =
    100;  // errors, and as many warnings, that are reported of one document

struct Place {
  unsigned line = 0;
  unsigned column = 0;
};

// Where each value of a decoded document stood: path ("machine.network.interfaces[0].cidr") ->
// place. Semantic checks look up the place of what they complain about; an absent path falls back
// to its parent.
class Places {
 public:
  void add(kj::StringPtr path, Place place);
  Place find(kj::StringPtr path) const;
  bool has(kj::StringPtr path) const { return places.find(path) != nullptr; }

 private:
  kj::TreeMap<kj::String, Place> places;
  size_t bytes = 0;
};

// A key that only later versions of a format have.
struct LaterKey {
  kj::StringPtr path;          // items of a list as "[]", any key as "*": "machine.pods[].name"
  kj::StringPtr since;         // "v1.3"
  kj::StringPtr hint = ""_kj;  // the replacement
};

struct ReadOptions {
  kj::StringPtr file = "";  // for Problem::file
  // Unknown keys that are warnings, with what is below them.
  kj::ArrayPtr<const LaterKey> laterKeys = nullptr;
  bool unknownKeysAreWarnings = false;
};

// Decodes `text` into `target` (a struct whose schema carries the annotations). True when there is
// no error-severity problem; on false `target` holds whatever could be read and must not be used as
// a whole.
bool readYaml(kj::ArrayPtr<const char> text, capnp::DynamicStruct::Builder target,
              Problems& problems, const ReadOptions& options = {}, Places* places = nullptr);

enum class Secrets {
  kHide,
  kShow
};  // kHide writes "***" for $secret fields, of a $map for its values
enum class Empties { kOmit, kKeep };  // the config omits defaults, `get` writes every key

struct WriteOptions {
  unsigned indent = 4;       // spaces per level
  unsigned startColumn = 0;  // all lines are indented by so many spaces
  Empties empties = Empties::kKeep;
  Secrets secrets = Secrets::kShow;
  bool comments = false;  // $doc as '#' lines above each key
  // Of the same schema: what it has and the value has not is written as a comment. YAML only.
  kj::Maybe<capnp::DynamicStruct::Reader> examples = nullptr;
  // Of a value from elsewhere, whose lists may be a thousand times as large as text: the memory
  // for writing it, which its text does not exceed. Beyond it writing throws ResourceExhausted.
  size_t mostBytes = kj::maxValue;
};

// YAML 1.2 block style, ends with '\n'. A struct with $inline is written as its only value. $raw
// text is re-indented and kept byte for byte otherwise (comments survive). Lists of scalars are one
// item a line. A sequence inside a mapping is indented one level ("key:\n    - item").
kj::String writeYaml(capnp::DynamicStruct::Reader value, const WriteOptions& options = {});

// The same as the value of a key: `key: scalar`, or `key:` and the lines below it, one level
// deeper.
kj::String writeYamlEntry(kj::StringPtr key, capnp::DynamicStruct::Reader value,
                          const WriteOptions& options = {});

// JSON, `indent` spaces a level (0: one line). $raw text is converted, losing comments.
kj::String writeJson(capnp::DynamicStruct::Reader value, const WriteOptions& options = {});

// A scalar as YAML would write it: plain where that is safe, else double-quoted.
kj::String yamlScalar(kj::StringPtr text);
// A string with its JSON quotes.
kj::String jsonString(kj::StringPtr text);

// The text of one field as a table cell shows it (lists as ["a","b"] JSON, enums by name, bool
// true/false).
kj::String cell(capnp::DynamicStruct::Reader value, capnp::StructSchema::Field field);

// The YAML key of a field: $name, or its own name.
kj::StringPtr keyOf(capnp::StructSchema::Field field);

}  // namespace talos::codec
