#include "common/config/toml.h"

#include <string.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/config/toml-scalars.h"
#include "common/text/ascii.h"
#include "common/text/foreign-text.h"
#include "common/text/plain-text.h"

namespace talos::toml {
namespace {

using Kind = Value::Kind;
using Made = Value::Made;

constexpr size_t kMostShownKey = 64;

// Control characters that a string and a comment must not contain.
bool isForbidden(char c) {
  auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

kj::String shownKey(const std::string& key) {
  return kj::str('"', fieldText(kj::arrayPtr(key.data(), key.size()), kMostShownKey), '"');
}

class Reader {
 public:
  explicit Reader(kj::ArrayPtr<const char> text) : text(text) {}

  Value readAll() {
    checkText();
    Value root;
    root.made = Made::kByHeader;
    Value* table = &root;
    for (skipLines(); !atEnd(); skipLines()) {
      if (peek() == '[') {
        table = readHeader(root);
      } else {
        readPair(*table, 0);
      }
      endLine();
    }
    if (depthOf(root) > kMostDepth) refuse("nested too deeply");
    return root;
  }

 private:
  kj::ArrayPtr<const char> text;
  size_t at = 0;

  void checkText() const {
    if (text.size() > kMostBytes) refuse(kj::str("longer than ", kMostBytes, " bytes"));
    for (size_t i = 0; i < text.size();) {
      auto character = firstCharacter(text.slice(i, text.size()).asBytes());
      if (!character.valid) refuseAt(i, "not valid UTF-8");
      i += character.bytes;
    }
  }
  static size_t depthOf(const Value& value) {
    size_t most = 0;
    for (auto& field : value.fields) most = std::max(most, 1 + depthOf(*field.second));
    for (auto& item : value.items) most = std::max(most, 1 + depthOf(*item));
    return most;
  }

  bool atEnd() const { return at >= text.size(); }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool begins(const char* with) const {
    auto size = strlen(with);
    return text.size() - at >= size && memcmp(text.begin() + at, with, size) == 0;
  }

  [[noreturn]] void refuse(kj::StringPtr problem) const { refuseAt(at, problem); }
  [[noreturn]] void refuseAt(size_t place, kj::StringPtr problem) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < place && i < text.size(); ++i) {
      ++column;
      if (text[i] == '\n') ++line, column = 1;
    }
    fail(ErrorKind::kInvalidArgument, kj::str("line ", line, ", column ", column, ": ", problem));
  }

  void skipBlanks() {
    while (peek() == ' ' || peek() == '\t') ++at;
  }
  bool skipLineBreak() {
    if (peek() == '\n') {
      ++at;
      return true;
    }
    if (peek() == '\r' && peek(1) == '\n') {
      at += 2;
      return true;
    }
    return false;
  }
  void skipComment() {
    if (peek() != '#') return;
    while (!atEnd() && peek() != '\n') {
      if (peek() == '\r' && peek(1) == '\n') return;
      if (isForbidden(peek())) refuse("a control character in a comment");
      ++at;
    }
  }
  // Skips blanks, comments and line breaks.
  void skipLines() {
    do {
      skipBlanks();
      skipComment();
    } while (skipLineBreak());
  }
  void endLine() {
    skipBlanks();
    skipComment();
    if (!atEnd() && !skipLineBreak()) refuse("a line has one key and one value");
  }

  // --- keys ---

  std::string readKeyPart() {
    if (peek() == '"' || peek() == '\'') {
      if (begins("\"\"\"") || begins("'''")) refuse("a key must be on one line");
      return readString();
    }
    std::string key;
    while (!atEnd() && isBareKey(peek())) key += text[at++];
    if (key.empty()) refuse("expected a key: letters, digits, _ and -, or a text in quotes");
    return key;
  }
  std::vector<std::string> readKey() {
    std::vector<std::string> parts;
    for (;;) {
      skipBlanks();
      parts.push_back(readKeyPart());
      if (parts.size() > kMostDepth) refuse("nested too deeply");
      skipBlanks();
      if (peek() != '.') return parts;
      ++at;
    }
  }

  static Value& addTable(Value& table, const std::string& key, Made made) {
    auto& place = table.fields[key];
    place = std::make_unique<Value>();
    place->made = made;
    return *place;
  }

  // Returns the table of a header, and creates it.
  Value* readHeader(Value& root) {
    auto begin = at;
    bool list = begins("[[");
    at += list ? 2 : 1;
    auto parts = readKey();
    if (!begins(list ? "]]" : "]")) refuse(list ? "expected ]]"_kj : "expected ]"_kj);
    at += list ? 2 : 1;
    Value* table = &root;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      auto found = table->fields.find(parts[i]);
      table = found == table->fields.end() ? &addTable(*table, parts[i], Made::kImplied)
                                           : enter(*found->second, parts[i], begin);
    }
    auto& last = parts.back();
    auto found = table->fields.find(last);
    if (list) return addItem(*table, last, begin);
    if (found == table->fields.end()) return &addTable(*table, last, Made::kByHeader);
    auto& existing = *found->second;
    if (!existing.isTable() || existing.made != Made::kImplied) duplicate(last, begin);
    existing.made = Made::kByHeader;
    return &existing;
  }
  // Returns the table in which a header's next name is looked up: of a list, the last one.
  Value* enter(Value& value, const std::string& key, size_t begin) {
    if (value.ofTables) return value.items.back().get();
    if (!value.isTable() || value.made == Made::kInline) {
      refuseAt(begin, kj::str(shownKey(key), " is not a table to which keys can be added"));
    }
    return &value;
  }
  Value* addItem(Value& table, const std::string& key, size_t begin) {
    auto& place = table.fields[key];
    if (place == nullptr) {
      place = std::make_unique<Value>();
      place->kind = Kind::kList;
      place->ofTables = true;
    }
    if (!place->ofTables) duplicate(key, begin);
    place->items.push_back(std::make_unique<Value>());
    place->items.back()->made = Made::kByHeader;
    return place->items.back().get();
  }
  [[noreturn]] void duplicate(const std::string& key, size_t place) const {
    refuseAt(place, kj::str("duplicate key ", shownKey(key)));
  }

  void readPair(Value& into, size_t depth) {
    auto begin = at;
    auto parts = readKey();
    if (peek() != '=') refuse("expected =");
    ++at;
    skipBlanks();
    Value* table = &into;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      auto found = table->fields.find(parts[i]);
      if (found == table->fields.end()) {
        table = &addTable(*table, parts[i], Made::kByKey);
      } else {
        if (!found->second->isTable() || found->second->made != Made::kByKey) {
          duplicate(parts[i], begin);
        }
        table = found->second.get();
      }
    }
    auto& place = table->fields[parts.back()];
    if (place != nullptr) duplicate(parts.back(), begin);
    place = std::make_unique<Value>(readValue(depth));
  }

  // --- values ---

  Value readValue(size_t depth) {
    if (depth > kMostDepth) refuse("nested too deeply");
    if (peek() == '[') return readList(depth);
    if (peek() == '{') return readInlineTable(depth);
    Value value;
    auto begin = at;
    if (peek() == '"' || peek() == '\'') {
      value.kind = Kind::kText;
      readString();
    } else {
      value.kind = readPlain();
    }
    value.raw.assign(text.begin() + begin, at - begin);
    return value;
  }

  // Reads a boolean, a number or a time.
  Kind readPlain() {
    auto begin = at;
    auto isPart = [](char c) { return isBareKey(c) || c == '+' || c == '.' || c == ':'; };
    while (!atEnd() && isPart(peek())) ++at;
    auto token = std::string(text.begin() + begin, at - begin);
    // A blank may stand between a date and a time.
    if (isDate(token) && peek() == ' ' && isDigit(peek(1))) {
      ++at;
      while (!atEnd() && isPart(peek())) ++at;
      token.assign(text.begin() + begin, at - begin);
    }
    KJ_IF_MAYBE (kind, kindOfPlain(token)) return *kind;
    refuseAt(begin,
             "expected a value: a text in quotes, a number, true or false, a time, a list "
             "in [] or a table in {}");
  }

  Value readList(size_t depth) {
    Value list;
    list.kind = Kind::kList;
    ++at;
    for (;;) {
      skipLines();
      if (peek() == ']') break;
      list.items.push_back(std::make_unique<Value>(readValue(depth + 1)));
      skipLines();
      if (peek() == ']') break;
      if (peek() != ',') refuse("expected , or ] in a list");
      ++at;
    }
    ++at;
    return list;
  }

  Value readInlineTable(size_t depth) {
    Value table;
    ++at;
    skipBlanks();
    while (peek() != '}') {
      readPair(table, depth + 1);
      skipBlanks();
      if (peek() == '}') break;
      if (peek() != ',') refuse("expected , or } in a table");
      ++at;
      skipBlanks();
      if (peek() == '}') refuse("a table in {} has no , after its last key");
    }
    ++at;
    close(table);
    return table;
  }
  static void close(Value& table) {
    table.made = Made::kInline;
    for (auto& field : table.fields) {
      if (field.second->isTable()) close(*field.second);
    }
  }

  // --- strings ---

  // Reads a string in quotes of any kind and returns the text that it means.
  std::string readString() {
    char quote = peek();
    bool literal = quote == '\'';
    bool lines = begins(literal ? "'''" : "\"\"\"");
    auto begin = at;
    at += lines ? 3 : 1;
    if (lines) skipLineBreak();
    std::string out;
    for (;;) {
      if (atEnd()) refuseAt(begin, "a text without its closing quote");
      char c = peek();
      if (c == quote) {
        if (!lines) {
          ++at;
          return out;
        }
        if (endsLines(quote, out)) return out;
      } else if (c == '\\' && !literal) {
        readEscape(out, lines);
      } else if (lines && (c == '\n' || (c == '\r' && peek(1) == '\n'))) {
        skipLineBreak();
        out += '\n';
      } else {
        if (isForbidden(c)) {
          refuse(c == '\n' || c == '\r' ? "a text without its closing quote"_kj
                                        : "a control character in a text"_kj);
        }
        out += text[at++];
      }
    }
  }
  // Reads quotes in a text of several lines; up to two may stand before the three at its end.
  bool endsLines(char quote, std::string& out) {
    size_t count = 0;
    while (count < 6 && peek(count) == quote) ++count;
    if (count == 6) refuse("too many quotes at the end of a text");
    at += count;
    out.append(count < 3 ? count : count - 3, quote);
    return count >= 3;
  }
  void readEscape(std::string& out, bool lines) {
    static constexpr char kEscaped[] = "btnfr\"\\", kMeant[] = "\b\t\n\f\r\"\\";
    auto begin = at++;
    char c = peek();
    if (c == 'u' || c == 'U') {
      ++at;
      uint32_t code = 0;
      for (size_t left = c == 'u' ? 4 : 8; left > 0; --left) {
        if (atEnd() || !isHex(peek())) refuseAt(begin, "not a valid escape in a text");
        char digit = text[at++];
        code = code << 4 |
               static_cast<uint32_t>(isDigit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
      }
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        refuseAt(begin, "not a valid escape in a text");
      }
      Utf8 character(code);
      out.append(character.asPtr().begin(), character.asPtr().size());
      return;
    }
    auto known = c == '\0' ? nullptr : strchr(kEscaped, c);
    if (known != nullptr) {
      out += kMeant[known - kEscaped];
      ++at;
      return;
    }
    // A backslash at the end of a line removes the line break and all blanks after it.
    if (lines) {
      skipBlanks();
      if (skipLineBreak()) {
        do skipBlanks();
        while (skipLineBreak());
        return;
      }
    }
    refuseAt(begin, "not a valid escape in a text");
  }
};

kj::StringPtr nameOf(Kind kind) {
  switch (kind) {
    case Kind::kTable:
      return "a table"_kj;
    case Kind::kList:
      return "a list"_kj;
    case Kind::kText:
      return "a text"_kj;
    case Kind::kInteger:
      return "a whole number"_kj;
    case Kind::kFloat:
      return "a number with a fraction"_kj;
    case Kind::kBoolean:
      return "true or false"_kj;
    case Kind::kTime:
      return "a time"_kj;
  }
  KJ_UNREACHABLE;
}

std::string keyText(const std::string& key) {
  if (allOf(key, isBareKey)) return key;
  std::string text = "\"";
  for (char c : key) {
    if (isForbidden(c)) {
      static constexpr char kDigits[] = "0123456789abcdef";
      auto byte = static_cast<unsigned char>(c);
      text += "\\u00";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + "\"";
}

void mergeAt(const std::string& path, Value& into, const Value& from, SameKey rule) {
  for (auto& [key, value] : from.fields) {
    auto& place = into.fields[key];
    if (place == nullptr) {
      place = std::make_unique<Value>(copyOf(*value));
      continue;
    }
    auto name = path.empty() ? keyText(key) : path + "." + keyText(key);
    auto shown = fieldText(kj::arrayPtr(name.data(), name.size()), 256);
    if (place->kind != value->kind) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(shown, " must be ", nameOf(place->kind), ", not ", nameOf(value->kind)));
    }
    if (place->isTable()) {
      mergeAt(name, *place, *value, rule);
    } else if (place->kind == Kind::kList) {
      for (auto& item : value->items) {
        place->items.push_back(std::make_unique<Value>(copyOf(*item)));
      }
    } else if (rule == SameKey::kIsReplaced) {
      place->raw = value->raw;
    } else if (place->raw != value->raw) {
      fail(ErrorKind::kInvalidArgument, kj::str(shown, " has another value already"));
    }
  }
}

class Writer {
 public:
  std::string out;

  // Writes a table with its header; `header` is empty for the root.
  void table(const std::string& path, const std::string& header, const Value& value, bool always) {
    bool any = always || value.fields.empty();
    for (auto& [key, field] : value.fields) any = any || !hasHeader(key, *field);
    if (!header.empty() && any) out += (out.empty() ? "" : "\n") + header + "\n";
    for (auto& [key, field] : value.fields) {
      if (!hasHeader(key, *field)) pair(keyText(key), *field);
    }
    for (auto& [key, field] : value.fields) {
      if (!hasHeader(key, *field)) continue;
      auto child = path.empty() ? keyText(key) : path + "." + keyText(key);
      if (field->isTable()) {
        table(child, "[" + child + "]", *field, false);
      } else {
        for (auto& item : field->items) table(child, "[[" + child + "]]", *item, true);
      }
    }
  }

 private:
  static bool hasHeader(const std::string& key, const Value& value) {
    if (key.find_first_of("[]") != std::string::npos) return false;
    if (value.kind != Kind::kList || value.items.empty()) return value.isTable();
    for (auto& item : value.items) {
      if (!item->isTable()) return false;
    }
    return true;
  }

  void pair(const std::string& name, const Value& value) {
    if (value.isTable() && !value.fields.empty()) {
      for (auto& [key, field] : value.fields) pair(name + "." + keyText(key), *field);
    } else {
      out += name + " = " + inlineText(value) + "\n";
    }
  }

  static std::string inlineText(const Value& value) {
    std::string text;
    if (value.kind == Kind::kList) {
      for (auto& item : value.items) text += (text.empty() ? "" : ", ") + inlineText(*item);
      return "[" + text + "]";
    }
    if (!value.isTable()) return value.raw;
    for (auto& [key, field] : value.fields) {
      text += (text.empty() ? "" : ", ") + keyText(key) + " = " + inlineText(*field);
    }
    return "{" + text + "}";
  }
};

}  // namespace

const Value* Value::find(const std::string& key) const {
  auto found = fields.find(key);
  return found == fields.end() ? nullptr : found->second.get();
}

Value read(kj::ArrayPtr<const char> text) {
  return Reader(text).readAll();
}

Value copyOf(const Value& value) {
  Value copy;
  copy.kind = value.kind;
  copy.made = value.made;
  copy.ofTables = value.ofTables;
  copy.raw = value.raw;
  for (auto& [key, field] : value.fields) {
    copy.fields[key] = std::make_unique<Value>(copyOf(*field));
  }
  for (auto& item : value.items) copy.items.push_back(std::make_unique<Value>(copyOf(*item)));
  return copy;
}

void merge(Value& into, const Value& from, SameKey rule) {
  mergeAt("", into, from, rule);
}

kj::String write(const Value& table) {
  Writer writer;
  writer.table("", "", table, false);
  return kj::heapString(writer.out.data(), writer.out.size());
}

}  // namespace talos::toml
