// Writes trees of nodes as YAML text. It does not parse, so a program that only writes has no
// parser in it (json-write.cc has one).

#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"
#include "common/text/plain-text.h"
#include "common/yaml/yaml.h"

namespace talos::codec {
namespace {

PlainCharacter characterAt(kj::StringPtr text, size_t i) {
  return firstCharacter(text.slice(i).asBytes());
}

kj::String take(kj::Vector<char>& out) {
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

// 1:20 and 52:54:00:12:34:56 are numbers to a YAML 1.1 reader, 2021-03-09 is a date.
bool looksLikeNumberToOthers(kj::StringPtr text) {
  if (!isDigit(text[0]) && text[0] != '-' && text[0] != '+') return false;
  size_t dashes = 0, colons = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '-')
      ++dashes;
    else if (text[i] == ':')
      ++colons;
    else if (!isDigit(text[i]) && text[i] != '_' && text[i] != '.')
      return dashes == 2 && (text[i] == 'T' || text[i] == ' ');
  }
  return colons > 0 || dashes == 2 || text.findFirst('_') != nullptr;
}

bool isSafePlain(kj::StringPtr text) {
  if (text.size() == 0 || text.startsWith(" ") || text.endsWith(" ") || text.endsWith(":"))
    return false;
  if (scalarType(text) != ScalarType::kText || parseBool(text) != nullptr ||
      looksLikeNumberToOthers(text))
    return false;
  if (text == "<<" || text == "=" || text.startsWith("---") || text.startsWith("...")) return false;
  char first = text[0];
  for (char indicator : ",[]{}#&*!|>'\"%@`"_kj) {
    if (first == indicator) return false;
  }
  if ((first == '-' || first == '?' || first == ':') && (text.size() == 1 || text[1] == ' '))
    return false;
  for (size_t i = 0; i < text.size();) {
    auto character = characterAt(text, i);
    char c = text[i];
    if (!character.plain) return false;
    if (c == ':' && text[i + 1] == ' ') return false;
    if (c == '#' && text[i - 1] == ' ') return false;
    i += character.bytes;
  }
  return true;
}

// Returns true for text of several lines that a literal block ("|") keeps byte for byte.
bool isSafeLiteral(kj::StringPtr text) {
  if (text.findFirst('\n') == nullptr || text.endsWith("\n\n")) return false;
  bool lineStart = true;
  for (size_t i = 0; i < text.size();) {
    auto character = characterAt(text, i);
    char c = text[i];
    if (c != '\n' && c != '\t' && !character.plain) return false;
    if (c == '\t' && lineStart) return false;
    if (i == 0 && (c == ' ' || c == '\n')) return false;
    if (c == '\n' && i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\t')) return false;
    lineStart = c == '\n';
    i += character.bytes;
  }
  return !text.endsWith(" ") && !text.endsWith("\t");
}

bool isComment(kj::ArrayPtr<const char> line) {
  for (char c : line) {
    if (c == '#') return true;
    if (c != ' ' && c != '\t' && c != '\r') return false;
  }
  return true;
}

bool isMarker(kj::ArrayPtr<const char> line) {
  if (line.size() < 3) return false;
  auto mark = line.slice(0, 3);
  if (mark != "---"_kj.asArray() && mark != "..."_kj.asArray()) return false;
  return line.size() == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r';
}

// Returns the documents of a text that are more than comments, as its markers divide it; the whole
// text if it has no marker.
kj::Vector<kj::ArrayPtr<const char>> documentsOf(kj::StringPtr text) {
  kj::Vector<kj::ArrayPtr<const char>> documents;
  auto all = text.asArray();
  size_t begin = 0;
  bool hasContent = false;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end < all.size() && all[end] != '\n') ++end;
    auto line = all.slice(i, end);
    auto next = kj::min(end + 1, all.size());
    if (isMarker(line)) {
      if (hasContent) documents.add(all.slice(begin, i));
      hasContent = line[0] == '-' && !isComment(line.slice(3, line.size()));
      begin = hasContent ? i + 4 : next;
    } else if (!isComment(line) && (hasContent || line[0] != '%')) {
      hasContent = true;
    }
    i = next;
  }
  if (hasContent || begin == 0) documents.add(all.slice(begin, all.size()));
  return documents;
}

// Returns the only document of a text: markers have no meaning in a document that is used as a
// value.
kj::ArrayPtr<const char> onlyDocument(kj::StringPtr text) {
  auto documents = documentsOf(text);
  if (documents.empty()) return nullptr;
  return documents[0];
}

// Returns the only line of a raw node if it is certainly a scalar, which may follow its key on the
// same line.
kj::Maybe<kj::ArrayPtr<const char>> loneScalar(kj::StringPtr text) {
  auto line = onlyDocument(text);
  if (line.size() > 0 && line.back() == '\n') line = line.slice(0, line.size() - 1);
  if (line.size() == 0 || line[0] == '-' || line[0] == '?' || line[0] == '#') return nullptr;
  for (char c : line) {
    if (c == ':' || c == '\n') return nullptr;
  }
  return line;
}

class YamlWriter {
 public:
  YamlWriter(unsigned unit, unsigned start) : unit(unit == 0 ? 2 : unit), start(start) {}

  kj::String document(const YamlNode& node) {
    if (isBlock(node)) {
      block(node, 0, false);
    } else {
      pad(0);
      scalar(node);
      out.add('\n');
    }
    return take(out);
  }

  kj::String entry(kj::StringPtr key, const YamlNode& node) {
    pad(0);
    out.addAll(yamlScalar(key));
    out.add(':');
    afterKey(node, 0);
    return take(out);
  }

 private:
  kj::Vector<char> out;
  unsigned unit, start;

  void pad(unsigned column) {
    for (unsigned i = 0; i < start + column; ++i) out.add(' ');
  }

  // Collections start at multiples of the indentation; only "- " shifts its content by two.
  unsigned below(unsigned column) const { return unit * ((column + unit) / unit); }

  static bool hasEntries(const YamlNode& mapping) {
    for (auto& entry : mapping.entries) {
      if (entry.value != nullptr) return true;
    }
    return false;
  }

  static bool isBlock(const YamlNode& node) {
    return (node.kind == YamlNode::Kind::kSequence && node.items.size() > 0) ||
           (node.kind == YamlNode::Kind::kMapping && hasEntries(node)) ||
           (node.kind == YamlNode::Kind::kRaw && node.text.size() > 0 &&
            loneScalar(node.text) == nullptr);
  }

  void scalar(const YamlNode& node) {
    switch (node.kind) {
      case YamlNode::Kind::kRaw:
        out.addAll(loneScalar(node.text).orDefault("null"_kj.asArray()));
        break;
      case YamlNode::Kind::kNull:
        out.addAll("null"_kj);
        break;
      case YamlNode::Kind::kSequence:
        out.addAll("[]"_kj);
        break;
      case YamlNode::Kind::kMapping:
        out.addAll("{}"_kj);
        break;
      case YamlNode::Kind::kScalar: {
        bool verbatim =
            node.plain && (isSafePlain(node.text) || scalarType(node.text) != ScalarType::kText ||
                           parseBool(node.text) != nullptr);
        out.addAll(verbatim ? kj::str(node.text) : yamlScalar(node.text));
      }
    }
  }

  // Writes the value after "key:" in column `column`, or after "-".
  void afterKey(const YamlNode& node, unsigned column) {
    if (isBlock(node)) {
      out.add('\n');
      block(node, below(column), false);
    } else if (node.kind == YamlNode::Kind::kScalar && isSafeLiteral(node.text)) {
      out.add(' ');
      literal(node.text, below(column));
    } else {
      out.add(' ');
      scalar(node);
      out.add('\n');
      bool placed = false;
      for (auto& entry : node.entries) comment(entry.comment, below(column), placed);
    }
  }

  void literal(kj::StringPtr text, unsigned column) {
    out.addAll(text.endsWith("\n") ? "|\n"_kj : "|-\n"_kj);
    lines(text, column, false);
  }

  // Writes lines; with `firstPlaced`, the cursor is already at the start of the first line.
  void lines(kj::ArrayPtr<const char> text, unsigned column, bool firstPlaced) {
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && text[end] != '\n') ++end;
      if (end > i && !firstPlaced) pad(column);
      firstPlaced = false;
      out.addAll(text.slice(i, end));
      out.add('\n');
      i = end + 1;
    }
  }

  void block(const YamlNode& node, unsigned column, bool firstPlaced) {
    if (node.kind == YamlNode::Kind::kRaw) {
      lines(onlyDocument(node.text), column, firstPlaced);
    } else if (node.kind == YamlNode::Kind::kSequence) {
      for (auto* item : node.items) {
        if (!firstPlaced) pad(column);
        firstPlaced = false;
        out.add('-');
        sequenceItem(*item, column);
      }
    } else {
      for (auto& entry : node.entries) {
        if (entry.comment.size() > 0) comment(entry.comment, column, firstPlaced);
        if (entry.value == nullptr) continue;
        if (!firstPlaced) pad(column);
        firstPlaced = false;
        out.addAll(yamlScalar(entry.key));
        out.add(':');
        afterKey(*entry.value, column);
      }
    }
  }

  void sequenceItem(const YamlNode& item, unsigned column) {
    if (!isBlock(item)) {
      afterKey(item, column);
      return;
    }
    out.add(' ');
    block(item, column + 2, true);
  }

  void comment(kj::StringPtr text, unsigned column, bool& firstPlaced) {
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && text[end] != '\n') ++end;
      if (!firstPlaced) pad(column);
      firstPlaced = false;
      out.addAll("# "_kj);
      out.addAll(text.slice(i).asArray().slice(0, end - i));
      out.add('\n');
      i = end + 1;
    }
  }
};

}  // namespace

YamlNode::~YamlNode() noexcept(false) {
  zeroize(text.asArray());
}

bool hasSeveralDocuments(kj::StringPtr text) {
  return documentsOf(text).size() > 1;
}

kj::String yamlScalar(kj::StringPtr text) {
  return isSafePlain(text) ? kj::str(text) : jsonString(text);
}

kj::String renderYaml(const YamlNode& node, unsigned indent, unsigned startColumn) {
  return YamlWriter(indent, startColumn).document(node);
}

kj::String renderYamlEntry(kj::StringPtr key, const YamlNode& node, unsigned indent,
                           unsigned startColumn) {
  return YamlWriter(indent, startColumn).entry(key, node);
}

kj::String renderRawEntry(kj::StringPtr key, kj::StringPtr text, unsigned indent,
                          unsigned startColumn) {
  YamlNode node;
  node.kind = YamlNode::Kind::kRaw;
  node.text = kj::str(text);
  return renderYamlEntry(key, node, indent, startColumn);
}

}  // namespace talos::codec
