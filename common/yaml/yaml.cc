#include "common/yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <set>
#include <spanstream>
#include <vector>

#include "common/base/file.h"

namespace talos::codec {
namespace {

// yaml-cpp holds all tokens of a flow collection at once, so the characters that can make a token
// are limited too: 1 Mi of them cost about 100 MiB for as long as the text is parsed.
constexpr size_t kMaxIndicators = 1u << 20;
constexpr kj::StringPtr kIndicators = "[]{},:-?&*!|>'\""_kj;

// Tells for each byte whether it is an indicator, as every byte of a document is looked up.
constexpr auto kIsIndicator = [] {
  std::array<bool, 256> table{};
  for (char indicator : kIndicators) table[static_cast<unsigned char>(indicator)] = true;
  return table;
}();

// The byte order mark.
constexpr kj::StringPtr kMark = "\xef\xbb\xbf"_kj;

// The limit of YAML for a key without "? ".
constexpr size_t kMaxKeyBytes = 1024;

struct Refusal {
  size_t position;
  Place place;
  kj::String message;
  kj::String hint;
};

Place placeOf(const YAML::Mark& mark) {
  return {static_cast<unsigned>(mark.line + 1), static_cast<unsigned>(mark.column + 1)};
}

[[noreturn]] void refuse(const YAML::Mark& mark, kj::StringPtr message, kj::StringPtr hint = "") {
  throw Refusal{.position = static_cast<size_t>(mark.pos),
                .place = placeOf(mark),
                .message = kj::str(message),
                .hint = kj::str(hint)};
}

// Returns the place of a byte; columns count characters.
Place placeAt(kj::ArrayPtr<const char> text, size_t position) {
  Place place{1, 1};
  for (char c : text.slice(0, position)) {
    if (c == '\n') {
      ++place.line, place.column = 1;
    } else if ((c & 0xc0) != 0x80) {
      ++place.column;
    }
  }
  return place;
}

// Returns the bytes of the UTF-8 character that begins here; 0 if it is not valid.
size_t characterAt(kj::ArrayPtr<const char> text, size_t position) {
  auto first = static_cast<unsigned char>(text[position]);
  size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (position + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((text[position + k] & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Bytes that no text has, found before yaml-cpp sees them: it takes 0x04 for the end of its input,
// and a zero byte for a sign of UTF-16.
kj::Maybe<Refusal> checkBytes(kj::ArrayPtr<const char> text) {
  if (text.size() > kMaxDocumentBytes) {
    return Refusal{.position = 0,
                   .place = {},
                   .message = kj::str("the document has ", text.size(), " bytes; at most ",
                                      kMaxDocumentBytes, " are read"),
                   .hint = nullptr};
  }
  auto refusal = [&](size_t position, kj::String message, kj::StringPtr hint) {
    return Refusal{.position = position,
                   .place = placeAt(text, position),
                   .message = kj::mv(message),
                   .hint = kj::str(hint)};
  };
  if (text.size() >= 3 && text.slice(0, 3) == kMark.asArray())
    return refusal(0, kj::str("a second byte order mark"), "remove it");
  size_t indicators = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      auto length = characterAt(text, i);
      if (length == 0) return refusal(i, kj::str("invalid UTF-8"), "the file must be UTF-8 text");
      i += length - 1;
    } else if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f) {
      return refusal(i, kj::str("byte 0x", c < 16 ? "0" : "", kj::hex(c), " is not text"),
                     "the file must be UTF-8 text without control characters");
    } else if (kIsIndicator[c] && ++indicators > kMaxIndicators) {
      return refusal(i, kj::str("more than ", kMaxIndicators, " YAML indicator characters"), "");
    }
  }
  return nullptr;
}

// Builds the tree from yaml-cpp's events and refuses at the first event that exceeds a limit.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(kj::Arena& arena, size_t sourceSize) : arena(arena), sourceSize(sourceSize) {}

  ~TreeBuilder() noexcept override {}

  kj::Maybe<const YamlNode&> takeRoot() {
    auto result = root;
    root = nullptr;
    return result;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp takes a character that can begin nothing (a stray bracket) for an empty document,
    // again and again.
    if (mark.pos == lastDocument) refuse(mark, "unexpected character");
    lastDocument = mark.pos;
    anchored.clear();
    stack.clear();
    awaitingEnd.clear();
    root = nullptr;
  }
  void OnDocumentEnd() override {
    for (auto* node : awaitingEnd) node->end = sourceSize;
    awaitingEnd.clear();
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto& node = open(mark, "?", anchor);
    attach(mark, node);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (anchor == 0 && (tag == "?" || tag == "!") && awaitsKey()) return addPlainKey(mark, value);
    auto& node = open(mark, tag, anchor);
    node.kind = YamlNode::Kind::kScalar;
    node.plain = tag == "?";
    node.text = kj::heapString(value.data(), value.size());
    node.bytes = value.size();
    checkText(mark, value);
    awaitingEnd.add(&node);
    attach(mark, node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    closeUpTo(mark);
    if (anchor >= anchored.size() || anchored[anchor] == nullptr) {
      refuse(mark, "the alias refers to a value that contains it");
    }
    auto* target = anchored[anchor];
    count(mark, target->size);
    repeated += target->bytes;
    if (repeated > kMaxExpandedBytes)
      refuse(mark, kj::str("more than ", kMaxExpandedBytes, " bytes, aliases expanded"));
    if (stack.size() + target->height > kMaxDepth) refuse(mark, tooDeep());
    for (auto& level : stack) level.node->selfContained = false;
    attach(mark, *target);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    push(mark, tag, anchor, style, YamlNode::Kind::kSequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    push(mark, tag, anchor, style, YamlNode::Kind::kMapping);
  }
  void OnSequenceEnd() override { pop(); }
  void OnMapEnd() override { pop(); }

 private:
  struct Level {
    YamlNode* node;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    kj::Maybe<kj::String> key;
    Place keyPlace;
    size_t keyBegin = 0;
  };

  kj::Arena& arena;
  size_t sourceSize;
  int lastDocument = -1;
  size_t total = 0;     // nodes over all documents
  size_t repeated = 0;  // bytes that aliases repeat, the same
  kj::Vector<Level> stack;
  kj::Vector<YamlNode*> awaitingEnd;      // ended; their end is where the next event is
  std::vector<const YamlNode*> anchored;  // by anchor number; null while the node is open
  kj::Maybe<const YamlNode&> root;

  static kj::String tooDeep() { return kj::str("more than ", kMaxDepth, " levels"); }

  void count(const YAML::Mark& mark, size_t nodes) {
    total += nodes;
    if (total > kMaxNodes) {
      refuse(mark, kj::str("more than ", kMaxNodes, " values, aliases expanded"));
    }
  }

  void closeUpTo(const YAML::Mark& mark) {
    for (auto* node : awaitingEnd) node->end = mark.pos;
    awaitingEnd.clear();
  }

  YamlNode& open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    closeUpTo(mark);
    count(mark, 1);
    auto& node = arena.allocate<YamlNode>();
    node.place = placeOf(mark);
    node.begin = mark.pos;
    if (anchor != 0) {
      if (anchored.size() <= anchor) anchored.resize(anchor + 1, nullptr);
      anchored[anchor] = nullptr;
    }
    if (anchor != 0 || (tag != "?" && tag != "!")) {
      node.selfContained = false;
      node.decorated = true;
      for (auto& level : stack) level.node->selfContained = false;
    }
    pendingAnchor = anchor;
    return node;
  }
  YAML::anchor_t pendingAnchor = 0;

  void push(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style, YamlNode::Kind kind) {
    auto& node = open(mark, tag, anchor);
    if (awaitsKey()) refuse(mark, "a key must be text, not a list or a mapping");
    if (stack.size() + 1 > kMaxDepth) refuse(mark, tooDeep());
    node.kind = kind;
    node.flow = style == YAML::EmitterStyle::Flow;
    if (node.flow) node.selfContained = false;
    pendingAnchor = 0;
    stack.add(Level{&node, mark, anchor, nullptr, {}});
  }

  void pop() {
    auto level = kj::mv(stack.back());
    stack.removeLast();
    auto& node = *level.node;
    awaitingEnd.add(&node);
    if (node.kind == YamlNode::Kind::kMapping) finishMapping(node);
    pendingAnchor = level.anchor;
    attach(level.mark, node);
  }

  void attach(const YAML::Mark& mark, const YamlNode& node) {
    if (pendingAnchor != 0) anchored[pendingAnchor] = &node;
    pendingAnchor = 0;
    if (stack.empty()) {
      root = node;
      return;
    }
    auto& level = stack.back();
    auto& parent = *level.node;
    grow(parent, node.size, node.bytes, node.height);
    if (parent.kind == YamlNode::Kind::kSequence) {
      parent.items.add(&node);
      return;
    }
    KJ_IF_MAYBE (key, level.key) {
      parent.entries.add(Entry{kj::mv(*key), level.keyPlace, &node, nullptr, level.keyBegin});
      level.key = nullptr;
      return;
    }
    if (node.kind != YamlNode::Kind::kScalar && node.kind != YamlNode::Kind::kNull) {
      refuse(mark, "a key must be text, not a list or a mapping");
    }
    addKey(mark, node.text);
  }

  static void grow(YamlNode& parent, size_t nodes, size_t bytes, unsigned height) {
    parent.size += nodes;
    parent.bytes += bytes;
    parent.height = std::max(parent.height, height + 1);
  }

  bool awaitsKey() const {
    return !stack.empty() && stack.back().node->kind == YamlNode::Kind::kMapping &&
           stack.back().key == nullptr;
  }

  static void checkText(const YAML::Mark& mark, const std::string& value) {
    if (value.find('\0') != value.npos) refuse(mark, "a value contains a zero byte");
  }

  // Adds a key without an anchor. No alias refers to it, so it needs no node; half of the texts of
  // a document are such keys.
  void addPlainKey(const YAML::Mark& mark, const std::string& value) {
    closeUpTo(mark);
    count(mark, 1);
    checkText(mark, value);
    grow(*stack.back().node, 1, value.size(), 1);
    addKey(mark, kj::arrayPtr(value.data(), value.size()));
  }

  void addKey(const YAML::Mark& mark, kj::ArrayPtr<const char> text) {
    if (text.size() > kMaxKeyBytes)
      refuse(mark, kj::str("a key of more than ", kMaxKeyBytes, " bytes"));
    auto& level = stack.back();
    level.key = kj::heapString(text);
    level.keyPlace = placeOf(mark);
    level.keyBegin = mark.pos;
  }

  // Merges "<<" and refuses a duplicate key.
  void finishMapping(YamlNode& node) {
    // Equal keys stay in the order of the document.
    auto byKey = [](const Entry* a, const Entry* b) {
      return a->key == b->key ? a < b : a->key < b->key;
    };
    std::vector<const Entry*> sorted;
    sorted.reserve(node.entries.size());
    bool merges = false;
    for (auto& entry : node.entries) {
      sorted.push_back(&entry);
      merges = merges || entry.key == "<<";
    }
    std::sort(sorted.begin(), sorted.end(), byKey);
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1]->key == sorted[i]->key) {
        throw Refusal{
            0, sorted[i]->place,
            kj::str("the key \"", sorted[i]->key, "\" is a duplicate; the first is in line ",
                    sorted[i - 1]->place.line),
            kj::str()};
      }
    }
    if (merges) merge(node);
  }

  void merge(YamlNode& node) {
    node.selfContained = false;
    node.merged = true;
    kj::Vector<Entry> own;
    kj::Vector<const YamlNode*> sources;
    for (auto& entry : node.entries) {
      if (entry.key != "<<") {
        own.add(kj::mv(entry));
      } else if (entry.value->kind == YamlNode::Kind::kSequence) {
        for (auto* item : entry.value->items) sources.add(item);
      } else {
        sources.add(entry.value);
      }
    }
    std::set<std::string_view> known;  // keys live in the entries of nodes that stay
    auto view = [](kj::StringPtr key) { return std::string_view(key.begin(), key.size()); };
    for (auto& entry : own) known.insert(view(entry.key));
    for (auto* source : sources) {
      if (source->kind != YamlNode::Kind::kMapping) {
        throw Refusal{.position = 0,
                      .place = source->place,
                      .message = kj::str("<< takes a mapping or a list of mappings"),
                      .hint = kj::str()};
      }
      for (auto& entry : source->entries) {
        if (!known.insert(view(entry.key)).second) continue;
        own.add(Entry{kj::str(entry.key), entry.place, entry.value, nullptr});
      }
    }
    node.entries = kj::mv(own);
  }
};

// Our messages for yaml-cpp's most frequent errors, with a remedy.
struct Translation {
  kj::StringPtr theirs, ours, hint;
};
constexpr Translation kTranslations[] = {
    {"illegal map value"_kj,
     "a second \": \" in one line, or a value that is indented like a key"_kj,
     "put text that holds \": \" in quotes"_kj},
    {"end of map not found"_kj, "this line is not part of the mapping above it"_kj,
     "indent all keys of a mapping alike, with blanks"_kj},
    {"end of sequence not found"_kj, "this line is not part of the list above it"_kj,
     "indent all items of a list alike and begin each with \"- \""_kj},
    {"illegal block entry"_kj, "a list item cannot stand here"_kj,
     "begin the list in a line of its own"_kj},
    {"illegal tab when looking for indentation"_kj, "a tab in the indentation"_kj,
     "indent with blanks"_kj},
    {"illegal EOF in scalar"_kj,
     "the quoted text that begins before the end of the file is never closed"_kj, ""_kj},
    {"end of sequence flow not found"_kj, "\"]\" or \",\" is missing before this"_kj, ""_kj},
    {"end of map flow not found"_kj, "\"}\" or \",\" is missing before this"_kj, ""_kj},
    {"unknown token"_kj, "no value can begin with this character"_kj, "put the text in quotes"_kj},
};

Refusal translate(const YAML::Exception& e, kj::ArrayPtr<const char> text) {
  Refusal refusal{static_cast<size_t>(std::max(e.mark.pos, 0)), placeOf(e.mark),
                  kj::heapString(e.msg.data(), e.msg.size()), kj::str()};
  for (auto& t : kTranslations) {
    if (refusal.message == t.theirs)
      refusal.message = kj::str(t.ours), refusal.hint = kj::str(t.hint);
  }
  size_t i = std::min(refusal.position, text.size());
  while (i > 0 && text[i - 1] != '\n') --i;
  size_t lineStart = i;
  while (i < text.size() && text[i] == ' ') ++i;
  if (i < text.size() && text[i] == '\t') {
    refusal.place.column = i - lineStart + 1;
    refusal.message = kj::str("a tab in the indentation");
    refusal.hint = kj::str("indent with blanks");
  }
  return refusal;
}

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Returns the end of the quoted text that begins at `i`; the size of the text if it is not closed.
size_t endOfQuoted(kj::ArrayPtr<const char> text, size_t i) {
  char quote = text[i];
  for (++i; i < text.size(); ++i) {
    bool isTwo = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
    if (text[i] == quote && !isTwo) break;
    if (text[i] == quote || (quote == '"' && text[i] == '\\')) ++i;
  }
  return kj::min(i, text.size());
}

// Returns the position of the last bracket that is not closed, in a text that begins with a
// bracket, as JSON does; nullptr for other texts, and if another mistake comes first. yaml-cpp
// takes such a text for a key.
kj::Maybe<size_t> unclosedBracket(kj::ArrayPtr<const char> text) {
  kj::Vector<size_t> open;
  char before = ',';  // the last character that is not blank
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (isBlank(c)) continue;
    if (c == '#' && (i == 0 || isBlank(text[i - 1]))) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
      continue;
    }
    bool begins = before == ',' || before == ':' || before == '[' || before == '{';
    before = c;
    if ((c == '"' || c == '\'') && begins) i = endOfQuoted(text, i);
    if (c == '{' || c == '[') open.add(i);
    if (open.empty() || i == text.size()) return nullptr;
    if (c != '}' && c != ']') continue;
    if (text[open.back()] != (c == '}' ? '{' : '[')) return nullptr;
    open.removeLast();
  }
  if (open.empty()) return nullptr;
  return open.back();
}

Place placeIn(kj::ArrayPtr<const char> text, size_t position) {
  Place place{1, 1};
  for (char c : text.slice(0, position)) {
    place.column = c == '\n' ? 1 : place.column + 1;
    place.line += c == '\n';
  }
  return place;
}

Refusal orUnclosed(Refusal refusal, kj::ArrayPtr<const char> text) {
  KJ_IF_MAYBE (bracket, unclosedBracket(text)) {
    return Refusal{*bracket, placeIn(text, *bracket),
                   kj::str("the \"", text[*bracket], "\" here is never closed"), kj::str()};
  }
  return refusal;
}

kj::ArrayPtr<const char> withoutMark(kj::ArrayPtr<const char> text) {
  bool marked = text.size() >= 3 && text.slice(0, 3) == kMark.asArray();
  return marked ? text.slice(3, text.size()) : text;
}

// Returns the end of the document that starts in [begin, end): markers end a document only at a
// line's start.
size_t cutAtMarker(kj::ArrayPtr<const char> text, size_t begin, size_t end) {
  for (size_t i = begin; i + 3 <= end; ++i) {
    if (i > 0 && text[i - 1] != '\n') continue;
    auto mark = text.slice(i, i + 3);
    bool marker = mark == "---"_kj.asArray() || mark == "..."_kj.asArray();
    if (marker && (i + 3 == text.size() || text[i + 3] == ' ' || text[i + 3] == '\n' ||
                   text[i + 3] == '\r')) {
      return i;
    }
  }
  return end;
}

}  // namespace

YamlStream::YamlStream(kj::ArrayPtr<const char> text, kj::StringPtr file, Problems& problems)
    : source(withoutMark(text)) {
  auto report = [&](Refusal&& refusal) {
    auto& problem = problems.add();
    problem.file = kj::str(file);
    problem.line = refusal.place.line;
    problem.column = refusal.place.column;
    problem.message = kj::mv(refusal.message);
    problem.hint = kj::mv(refusal.hint);
  };
  KJ_IF_MAYBE (refusal, checkBytes(source)) {
    report(kj::mv(*refusal));
    return;
  }
  TreeBuilder builder(arena, source.size());
  try {
    std::ispanstream in(std::span<const char>(source.begin(), source.size()));
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
      KJ_IF_MAYBE (root, builder.takeRoot()) roots.add(root);
    }
  } catch (Refusal& refusal) {
    report(orUnclosed(kj::mv(refusal), source));
  } catch (const YAML::Exception& e) {
    report(orUnclosed(translate(e, source), source));
  }
}

kj::String YamlStream::textOf(const YamlNode& node) const {
  if (!node.selfContained ||
      (node.kind != YamlNode::Kind::kMapping && node.kind != YamlNode::Kind::kSequence)) {
    return renderYaml(node, 2, 0);
  }
  size_t end = cutAtMarker(source, node.begin, std::min(node.end, source.size()));
  // The line in which the next node starts does not belong to this one.
  while (end < source.size() && end > node.begin && source[end - 1] != '\n') --end;
  size_t column = node.place.column - 1;

  kj::Vector<kj::ArrayPtr<const char>> lines;
  size_t used = 0;  // lines up to the last that certainly belongs to the node
  for (size_t i = node.begin; i < end;) {
    size_t lineEnd = i;
    while (lineEnd < end && source[lineEnd] != '\n') ++lineEnd;
    size_t first = i;
    while (lines.size() > 0 && first < lineEnd && first - i < column && source[first] == ' ')
      ++first;
    auto line = source.slice(first, lineEnd);
    lines.add(line);
    bool indented = lines.size() == 1 || first - i == column;
    if (line.size() > 0 && (indented || line[0] != '#')) used = lines.size();
    i = lineEnd + 1;
  }
  kj::Vector<char> out;
  for (size_t i = 0; i < used; ++i) {
    out.addAll(lines[i]);
    out.add('\n');
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

}  // namespace talos::codec
