// The only codec between YAML or JSON text and Cap'n Proto structs, by reflection.
//
// A key's name and default, and whether it is secret, base64, a mapping or raw text, are in the
// schema's annotations (rpc/annotations.capnp); no type has special code. JSON is read by the same
// parser (it is a subset of YAML 1.2) and written by the same walk.
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
    100;  // limit of the errors, and of the warnings, reported for one document

struct Place {
  unsigned line = 0;
  unsigned column = 0;
};

// Source places of the values of a decoded document: path ("machine.network.interfaces[0].cidr") ->
// place. Semantic checks look up the place of their problem here; an absent path falls back to its
// parent.
class Places {
 public:
  // Keeps the present place of a path.
  void add(kj::StringPtr path, Place place);
  // Replaces the present place of a path.
  void replace(kj::StringPtr path, Place place);
  Place find(kj::StringPtr path) const;
  bool has(kj::StringPtr path) const { return places.find(path) != nullptr; }

 private:
  kj::TreeMap<kj::String, Place> places;
  size_t bytes = 0;
};

// The result of a later key in a document.
enum class LaterTreatment {
  kWarning,      // accepted, without an effect
  kAccepted,     // accepted silently, because another key decides
  kError,        // refused
  kErrorIfTrue,  // refused, unless its value is false
};

// A key that only later versions of a format have.
struct LaterKey {
  kj::StringPtr path;          // items of a list as "[]", any key as "*": "machine.pods[].name"
  kj::StringPtr since;         // "v1.3"
  kj::StringPtr hint = ""_kj;  // the replacement
  LaterTreatment treatment = LaterTreatment::kWarning;
  kj::StringPtr reason = ""_kj;  // why this system does not have it; the message of an error
};

struct ReadOptions {
  kj::StringPtr file = "";  // for Problem::file
  // Keys of later versions, each with its treatment, which also holds for everything below it.
  kj::ArrayPtr<const LaterKey> laterKeys = nullptr;
  bool unknownKeysAreWarnings = false;
};

// Decodes `text` into `target` (a struct whose schema carries the annotations). Returns true if
// there is no error-severity problem; on false `target` holds the values that could be read and
// must not be used as a whole.
bool readYaml(kj::ArrayPtr<const char> text, capnp::DynamicStruct::Builder target,
              Problems& problems, const ReadOptions& options = {}, Places* places = nullptr);

enum class Secrets {
  kHide,
  kShow
};  // kHide writes "***" for $secret fields, and for the values of a $secret $map
enum class Empties { kOmit, kKeep };  // the config omits defaults, `get` writes every key

struct WriteOptions {
  unsigned indent = 4;       // spaces per level
  unsigned startColumn = 0;  // indentation of all lines
  Empties empties = Empties::kKeep;
  Secrets secrets = Secrets::kShow;
  bool comments = false;  // $doc as '#' lines above each key
  // Struct of the same schema: fields that it has and the value does not have are written as
  // comments. YAML only.
  kj::Maybe<capnp::DynamicStruct::Reader> examples = nullptr;
  // Limit of the memory for writing a foreign value, whose lists may be a thousand times as large
  // as text; the written text does not exceed it. Beyond the limit writing throws
  // ResourceExhausted.
  size_t mostBytes = kj::maxValue;
};

// Writes YAML 1.2 block style that ends with '\n'. A struct with $inline is written as its only
// value. $raw text is re-indented and otherwise kept byte for byte (comments survive); $raw text of
// several documents, which no value can be, is written as a text, in JSON as well. Lists of scalars
// have one item a line. A sequence inside a mapping is indented one level ("key:\n    - item").
kj::String writeYaml(capnp::DynamicStruct::Reader value, const WriteOptions& options = {});

// Writes the same as the value of a key: `key: scalar`, or `key:` and the lines below it, one level
// deeper.
kj::String writeYamlEntry(kj::StringPtr key, capnp::DynamicStruct::Reader value,
                          const WriteOptions& options = {});

// Writes JSON, `indent` spaces a level (0: one line). $raw text is converted, losing comments.
kj::String writeJson(capnp::DynamicStruct::Reader value, const WriteOptions& options = {});

// Returns a scalar as YAML: plain if this is safe, otherwise double-quoted.
kj::String yamlScalar(kj::StringPtr text);

// Returns the text of one field for a table cell (lists as ["a","b"] JSON, enums by name, bool
// true/false).
kj::String cell(capnp::DynamicStruct::Reader value, capnp::StructSchema::Field field);

// Returns the YAML key of a field: $name, or its own name.
kj::StringPtr keyOf(capnp::StructSchema::Field field);

}  // namespace talos::codec
