#include "common/yaml/yaml-source.h"

#include <algorithm>

namespace talos::codec {

using Kind = YamlNode::Kind;

size_t SourceText::lineStart(size_t position) const {
  while (position > 0 && text[position - 1] != '\n') --position;
  return position;
}

size_t SourceText::lineEnd(size_t position) const {
  size_t begin = position;
  while (position < end && text[position] != '\n') ++position;
  if (position > begin && position < end && text[position - 1] == '\r') --position;
  return position;
}

size_t SourceText::beforeLine(size_t position) const {
  size_t start = lineStart(position);
  if (start == 0) return 0;
  return start > 1 && text[start - 2] == '\r' ? start - 2 : start - 1;
}

bool SourceText::isFirstOfLine(size_t position) const {
  for (size_t i = lineStart(position); i < position; ++i) {
    if (text[i] != ' ') return false;
  }
  return true;
}

bool SourceText::isInOneLine(size_t a, size_t b) const {
  return std::find(text.begin() + a, text.begin() + b, '\n') == text.begin() + b;
}

bool SourceText::hasComment(size_t a, size_t b) const {
  return std::find(text.begin() + a, text.begin() + b, '#') != text.begin() + b;
}

size_t SourceText::indentation(size_t start) const {
  size_t i = start;
  while (at(i) == ' ') ++i;
  return i - start;
}

size_t SourceText::leadStart(size_t position, size_t floor) const {
  size_t start = lineStart(position), column = position - start;
  while (start > 0) {
    size_t above = lineStart(start - 1);
    if (above < floor || indentation(above) != column || at(above + column) != '#') break;
    start = above;
  }
  return start;
}

kj::String SourceText::leadText(size_t position) const {
  size_t start = lineStart(position), column = position - start;
  if (!isFirstOfLine(position)) return kj::str();
  kj::Vector<kj::ArrayPtr<const char>> lines;
  for (size_t i = leadStart(position, 0); i < start;) {
    size_t next = std::find(text.begin() + i, text.begin() + start, '\n') + 1 - text.begin();
    lines.add(text.slice(i + column, next));
    i = next;
  }
  return kj::str(kj::delimited(lines, ""));
}

kj::String SourceText::commentText(size_t from, size_t to) const {
  kj::Vector<char> out;
  for (size_t i = from; i < to;) {
    size_t last = std::min(lineEnd(i), to);
    size_t first = std::find(text.begin() + i, text.begin() + last, '#') - text.begin();
    if (first < last) ++first;
    if (first < last && text[first] == ' ') ++first;
    if (out.size() > 0) out.add('\n');
    out.addAll(text.slice(first, last));
    while (last < to && isBreak(text[last])) {
      if (text[last++] == '\n') break;
    }
    i = last;
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

size_t SourceText::skipBlanks(size_t i) const {
  while (i < end && isBlank(text[i])) ++i;
  return i;
}

size_t SourceText::scalarEnd(size_t i) const {
  while (!isBlank(at(i)) && !isBreak(at(i)) && at(i) != ',' && at(i) != ']' && at(i) != '}') ++i;
  return i;
}

bool SourceText::isNull(size_t i) const {
  auto scalar = text.slice(i, scalarEnd(i));
  for (kj::StringPtr null : {"~"_kj, "null"_kj, "Null"_kj, "NULL"_kj}) {
    if (scalar == null.asArray()) return true;
  }
  return false;
}

size_t SourceText::beginOf(const YamlNode& node, size_t after) const {
  if (node.kind == Kind::kNull || isAlias(node, after)) {
    size_t i = skipBlanks(after);
    if (isAlias(node, after) ? at(i) == '*' : isNull(i)) return i;
    if (isAlias(node, after)) throw Unclear();
    return after;
  }
  return node.begin;
}

size_t SourceText::endOf(const YamlNode& node, size_t after) const {
  if (node.kind == Kind::kNull || isAlias(node, after)) {
    size_t begin = beginOf(node, after);
    return begin == after && !isNull(begin) ? after : scalarEnd(begin);
  }
  size_t limit = std::min(node.end, end);
  if (node.decorated || node.merged) return endOfLines(node.begin, limit);
  if (node.flow) return endOfFlow(node.begin);
  if (node.kind == Kind::kMapping) {
    if (node.entries.empty()) throw Unclear();
    auto& last = node.entries.back();
    return endOf(*last.value, afterKey(last));
  }
  if (node.kind == Kind::kSequence) {
    if (node.items.empty()) throw Unclear();
    return endOf(*node.items.back(), afterDashes(node).back());
  }
  char first = at(node.begin);
  if (first == '"' || first == '\'') return endOfQuoted(node.begin);
  if (first == '|' || first == '>') return endOfBlockScalar(node.begin, limit);
  size_t size = node.text.size();
  if (node.begin + size <= limit &&
      text.slice(node.begin, node.begin + size) == node.text.asArray())
    return node.begin + size;
  return endOfLines(node.begin, limit);
}

size_t SourceText::endOfQuoted(size_t begin) const {
  char quote = text[begin];
  for (size_t i = begin + 1; i < end; ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || at(i + 1) != '\'') return i + 1;
      ++i;
    }
  }
  throw Unclear();
}

size_t SourceText::endOfBlockScalar(size_t begin, size_t limit) const {
  size_t headerEnd = lineEnd(begin), result = headerEnd;
  size_t indent = 0;
  bool keeps = false;
  for (size_t i = begin; i < headerEnd && text[i] != '#'; ++i) {
    keeps = keeps || text[i] == '+';
    // An indicator counts from the indentation of the enclosing node, which is unknown here.
    if (text[i] >= '1' && text[i] <= '9') throw Unclear();
  }
  for (size_t i = headerEnd; i < limit;) {
    while (i < limit && text[i] != '\n') ++i;
    size_t start = i + 1;
    if (start >= limit) break;
    size_t last = lineEnd(start), column = indentation(start);
    bool empty = start + column >= last;
    if (!empty && indent == 0) indent = column;
    if (!empty && (column < indent || column == 0)) break;
    if (!empty || keeps) result = last;
    i = start;
  }
  return result;
}

// Returns the end of a flow collection, in which a quote starts a text only where a text can start.
size_t SourceText::endOfFlow(size_t begin) const {
  size_t depth = 0;
  bool fresh = true;
  for (size_t i = begin; i < end; ++i) {
    char c = text[i];
    if (fresh && (c == '"' || c == '\'')) {
      i = endOfQuoted(i) - 1;
      fresh = false;
    } else if (c == '#' && (isBlank(text[i - 1]) || isBreak(text[i - 1]))) {
      i = lineEnd(i) - 1;
    } else if (c == '[' || c == '{') {
      ++depth;
      fresh = true;
    } else if (c == ']' || c == '}') {
      if (--depth == 0) return i + 1;
      fresh = false;
    } else if (!isBlank(c) && !isBreak(c)) {
      fresh = c == ',' || c == ':' || c == '?';
    }
  }
  throw Unclear();
}

// Returns the end of a node without an end mark: the end of the last line that is neither empty nor
// a comment.
size_t SourceText::endOfLines(size_t begin, size_t limit) const {
  size_t result = begin;
  for (size_t i = begin; i < limit;) {
    size_t last = std::min(lineEnd(i), limit), first = skipBlanks(i), stop = last;
    for (size_t k = first; k < last; ++k) {
      if (text[k] == '#' && (k == i || isBlank(text[k - 1]))) {
        stop = k;
        break;
      }
    }
    while (stop > i && isBlank(text[stop - 1])) --stop;
    if (stop > first || (stop == first && stop > i && stop == last && first < last)) result = stop;
    while (last < limit && text[last] != '\n') ++last;
    i = last + 1;
  }
  return result;
}

size_t SourceText::afterKey(const Entry& entry) const {
  size_t i = entry.begin, size = entry.key.size();
  if (at(i) == '"' || at(i) == '\'') {
    i = endOfQuoted(i);
  } else if (i + size <= end && text.slice(i, i + size) == entry.key.asArray()) {
    i += size;
  } else {
    throw Unclear();
  }
  i = skipBlanks(i);
  if (at(i) != ':') throw Unclear();
  return i + 1;
}

kj::Array<size_t> SourceText::afterDashes(const YamlNode& sequence) const {
  kj::Vector<size_t> result(sequence.items.size());
  size_t position = sequence.begin, column = position - lineStart(position);
  while (result.size() < sequence.items.size()) {
    if (result.size() > 0) {
      position = endOf(*sequence.items[result.size() - 1], result.back());
      do {
        position = lineEnd(position);
        while (position < end && text[position] != '\n') ++position;
        if (position >= end) throw Unclear();
        ++position;
        size_t first = skipBlanks(position);
        if (at(first) == '#' || isBreak(at(first))) continue;
        position += column;
        break;
      } while (true);
    }
    if (at(position) != '-') throw Unclear();
    result.add(position + 1);
  }
  return result.releaseAsArray();
}

}  // namespace talos::codec
