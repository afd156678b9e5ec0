// Source ranges of the parts of a parsed document: the parser reports where nodes start; this unit
// finds their ends and the text around them. Pure.
#pragma once

#include "common/yaml/yaml.h"

namespace talos::codec {

// Thrown if the end of a part cannot be found.
struct Unclear {};

class SourceText {
 public:
  SourceText(kj::ArrayPtr<const char> text, size_t end) : text(text), end(end) {}

  const kj::ArrayPtr<const char> text;
  const size_t end;  // of the document

  // `after` is the offset after the ":" or "-" to which a node belongs. Nodes that begin before it
  // are those of an anchor.
  static bool isAlias(const YamlNode& node, size_t after) { return node.begin < after; }
  size_t beginOf(const YamlNode& node, size_t after) const;
  // Returns the offset after the last character of the node, without comments and newline; `after`
  // itself for a null that is not written.
  size_t endOf(const YamlNode& node, size_t after) const;

  // Returns the offset after the colon.
  size_t afterKey(const Entry& entry) const;
  // Returns the offset after the dash of each item of a block sequence.
  kj::Array<size_t> afterDashes(const YamlNode& sequence) const;

  size_t lineStart(size_t position) const;
  size_t lineEnd(size_t position) const;      // without the newline
  size_t beforeLine(size_t position) const;   // the end of the line before; 0 for the first
  bool isFirstOfLine(size_t position) const;  // except blanks
  bool isInOneLine(size_t a, size_t b) const;
  bool hasComment(size_t a, size_t b) const;  // true for anything but blanks and newlines
  // Returns the first line of the comment above the line of `position`, in the same column, and not
  // before `floor`; the line itself if there is no comment.
  size_t leadStart(size_t position, size_t floor) const;
  // Returns the comment above the line of `position` and in its column, without indentation.
  kj::String leadText(size_t position) const;
  // Returns the lines of the comment between the two offsets, without "# ".
  kj::String commentText(size_t from, size_t to) const;

 private:
  char at(size_t i) const { return i < end ? text[i] : '\n'; }
  bool isBlank(char c) const { return c == ' ' || c == '\t'; }
  bool isBreak(char c) const { return c == '\n' || c == '\r'; }
  size_t skipBlanks(size_t i) const;
  size_t scalarEnd(size_t i) const;
  bool isNull(size_t i) const;
  size_t endOfQuoted(size_t begin) const;
  size_t endOfBlockScalar(size_t begin, size_t limit) const;
  size_t endOfFlow(size_t begin) const;
  size_t endOfLines(size_t begin, size_t limit) const;
  size_t indentation(size_t start) const;
};

}  // namespace talos::codec
