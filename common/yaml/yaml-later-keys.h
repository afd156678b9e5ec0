// Keys in a document that only later versions of the format have.
//
// A later key has the treatment of its row, once for all keys of the same version and treatment
// below it: by default a warning that names the version. A key below it of another version or
// treatment has its own report. A key without a value, or with an empty list, is no error. If rows
// name keys below a later key, any other key there is an unknown key; below a key without such rows
// anything is accepted. Pure.
#pragma once

#include <kj/function.h>

#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"

namespace talos::codec {

// Path of the current node; it becomes text only on request.
struct Path {
  const Path* parent = nullptr;
  kj::StringPtr key;
  kj::Maybe<size_t> index;

  static constexpr size_t kUsualBytes = 96;

  kj::String toString(bool numbered = true) const {
    kj::Vector<char> out(kUsualBytes);
    appendTo(out, numbered);
    out.add('\0');
    return kj::String(out.releaseAsArray());
  }

  void appendTo(kj::Vector<char>& out, bool numbered = true) const {
    if (parent == nullptr) return;
    parent->appendTo(out, numbered);
    KJ_IF_MAYBE (i, index) {
      out.add('[');
      if (numbered) out.addAll(kj::toCharSequence(*i));
      out.add(']');
      return;
    }
    bool simple = key.size() > 0;
    for (char c : key)
      simple = simple && c != '.' && c != '[' && c != ' ' && static_cast<unsigned char>(c) >= 0x20;
    if (!simple) {
      out.add('[');
      out.addAll(jsonString(key));
      out.add(']');
      return;
    }
    if (parent->parent != nullptr) out.add('.');
    out.addAll(key);
  }
};

class LaterReader {
 public:
  using Report = kj::Function<void(Problem::Severity severity, Place place, const Path& path,
                                   kj::String message, kj::String hint)>;
  LaterReader(kj::ArrayPtr<const LaterKey> rows, Report report)
      : rows(rows), report(kj::mv(report)) {}

  // Returns true if the key at `path` is one of the rows. The key, and everything below it, was
  // then reported.
  bool read(const Entry& entry, const Path& path);
  // Returns the keys of the rows directly below the path.
  kj::Vector<kj::StringPtr> namesBelow(const Path& path) const;

 private:
  kj::ArrayPtr<const LaterKey> rows;
  Report report;

  kj::Maybe<const LaterKey&> find(const Path& path) const;
  void treat(const Entry& entry, const Path& path, const LaterKey& row);
  bool knowsBelow(const LaterKey& row) const;
  bool hasOwn(const YamlNode& node, const Path& path, const LaterKey& row) const;
  void readBelow(const YamlNode& node, const Path& path, const LaterKey& row);
  void refuse(const Entry& entry, const Path& path, const LaterKey& above);
};

// Returns true for an error that LaterReader reports because of a row's treatment, at the path of
// the row.
bool isLaterError(kj::ArrayPtr<const LaterKey> rows, const Problem& problem);

}  // namespace talos::codec
