// Converts the tree back to text by edits of the source, so that unchanged parts stay as they were
// written, comments included.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml-source.h"
#include "talosctl/config/patch-value.h"

namespace talos::patch {
namespace {

using codec::Entry;
using codec::SourceText;
using codec::Unclear;
using codec::YamlStream;

struct Edit {
  size_t begin, end;
  kj::String text;
};

// The position of a node in the text.
struct Slot {
  enum class Kind { kRoot, kKey, kItem, kFlow };
  Kind kind;
  size_t after;   // after the ":" or "-"; for the root, its beginning
  size_t column;  // column of the key or the dash
};

// Turns values into nodes to write; unchanged nodes keep their text.
class Renderer {
 public:
  Renderer(const YamlStream& stream, const SourceText& source, const YamlNode& root, bool keepText)
      : stream(stream), source(source), root(root), keepText(keepText) {}

  const YamlNode& node(const Value& value) {
    auto& result = arena.allocate<YamlNode>();
    auto* origin = value.origin;
    bool whole = keepText && origin != nullptr && !value.touched && origin->selfContained &&
                 (value.kind == Kind::kMapping || value.kind == Kind::kSequence);
    if (whole) {
      result.kind = Kind::kRaw;
      result.text = kj::str(source.leadText(origin->begin), stream.textOf(*origin));
      return result;
    }
    result.kind = value.kind;
    result.plain = value.plain;
    result.text = kj::str(value.text);
    auto comments = commentsOf(value);
    for (auto& member : value.members) {
      auto& below = node(*member.value);
      if (value.kind == Kind::kSequence) {
        result.items.add(&below);
        continue;
      }
      auto comment = comments.find({member.key.begin(), member.key.size()});
      result.entries.add(Entry{
          kj::str(member.key), {}, &below, comment == comments.end() ? ""_kj : comment->second, 0});
    }
    return result;
  }

  const YamlNode& listOf(const YamlNode& item) {
    auto& list = arena.allocate<YamlNode>();
    list.kind = Kind::kSequence;
    list.items.add(&item);
    return list;
  }

 private:
  const YamlStream& stream;
  const SourceText& source;
  const YamlNode& root;
  bool keepText;
  kj::Arena arena;

  using Comments = std::map<std::string_view, kj::StringPtr>;

  // Returns the comments above the keys of the value's original mapping.
  Comments commentsOf(const Value& value) {
    Comments result;
    auto* origin = value.origin;
    bool readable = origin != nullptr && origin->kind == Kind::kMapping && !origin->flow;
    if (!readable || value.kind != Kind::kMapping) return result;
    size_t floor = 0;
    for (auto& entry : origin->entries) {
      if (entry.begin < origin->begin || entry.begin >= origin->end) continue;
      // Text above the document stays in its place.
      if (entry.begin == root.begin) continue;
      size_t line = source.lineStart(entry.begin);
      if (source.isFirstOfLine(entry.begin)) {
        size_t lead = source.leadStart(entry.begin, floor);
        if (lead < line) {
          result[{entry.key.begin(), entry.key.size()}] =
              arena.copyString(source.commentText(lead, line));
        }
      }
      floor = source.lineEnd(entry.begin);
    }
    return result;
  }
};

// Writes values in brackets and braces, on one line.
class FlowWriter {
 public:
  explicit FlowWriter(bool json) : json(json) {}

  kj::String write(const Value& value) {
    add(value);
    out.add('\0');
    return kj::String(out.releaseAsArray());
  }

 private:
  bool json;  // puts every text in quotes
  kj::Vector<char> out;

  static bool isSimple(kj::StringPtr text) {
    if (text.size() == 0 || text[0] == '-') return false;
    for (char c : text) {
      bool alphanumeric =
          (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!alphanumeric && c != '-' && c != '_' && c != '.' && c != '/' && c != '+') return false;
    }
    return true;
  }

  void addText(kj::StringPtr text, bool plain) {
    plain = plain || (!json && codec::yamlScalar(text) == text);
    out.addAll(plain && isSimple(text) ? kj::str(text) : jsonString(text));
  }

  void add(const Value& value) {
    if (value.kind == Kind::kScalar) {
      addText(value.text, value.plain);
    } else if (value.kind == Kind::kMapping) {
      char separator = '{';
      for (auto& member : value.members) {
        out.add(separator);
        if (separator == ',') out.add(' ');
        addText(member.key, false);
        out.addAll(": "_kj);
        add(*member.value);
        separator = ',';
      }
      out.addAll(separator == '{' ? "{}"_kj : "}"_kj);
    } else if (value.kind == Kind::kSequence) {
      char separator = '[';
      for (auto& member : value.members) {
        out.add(separator);
        if (separator == ',') out.add(' ');
        add(*member.value);
        separator = ',';
      }
      out.addAll(separator == '[' ? "[]"_kj : "]"_kj);
    } else {
      out.addAll("null"_kj);
    }
  }
};

// Returns the indentation of the document's mappings: that of the first nested mapping.
unsigned indentOf(const YamlNode& node) {
  for (auto& entry : node.entries) {
    auto& value = *entry.value;
    if (node.flow || value.kind != Kind::kMapping || value.flow || value.entries.empty()) continue;
    auto& below = value.entries[0];
    if (below.place.column > entry.place.column)
      return std::min(below.place.column - entry.place.column, 8u);
  }
  for (auto& entry : node.entries) {
    unsigned found = entry.value->height > 1 ? indentOf(*entry.value) : 0;
    if (found > 0) return found;
  }
  return 0;
}

class Splicer {
 public:
  Splicer(const YamlStream& stream, Region region, const Value& root, bool keepText)
      : source(region.source, region.end),
        renderer(stream, source, *root.origin, keepText),
        json(root.origin->flow),
        unit(indentOf(*root.origin)) {
    if (unit == 0) unit = 4;
    size_t newline = source.lineEnd(0);
    crlf = newline < source.end && source.text[newline] == '\r';
  }

  void change(const Value& was, const Value& now) {
    Slot slot{Slot::Kind::kRoot, was.origin->begin, was.origin->place.column - 1};
    diff(slot, *was.origin, was, now);
  }

  void replaceAll(const Value& was, const Value& now) {
    Slot slot{Slot::Kind::kRoot, was.origin->begin, was.origin->place.column - 1};
    replace(slot, *was.origin, now);
  }

  // Replaces the whole document if its own end is unknown.
  void replaceRegion(const Value& was, const Value& now) {
    size_t begin = was.origin->begin;
    auto tail = kj::str(rendered({Slot::Kind::kRoot, begin, 0}, now), "\n");
    edits.add(Edit{begin, source.end, kj::mv(tail)});
  }

  kj::String result() {
    std::stable_sort(edits.begin(), edits.end(),
                     [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
    kj::Vector<char> out(source.text.size() + 1024);
    size_t done = 0;
    for (auto& edit : edits) {
      if (edit.begin < done) throw Unclear();
      out.addAll(source.text.slice(done, edit.begin));
      addText(out, edit.text);
      done = edit.end;
    }
    out.addAll(source.text.slice(done, source.text.size()));
    out.add('\0');
    return kj::String(out.releaseAsArray());
  }

 private:
  SourceText source;
  Renderer renderer;
  bool json;
  unsigned unit;
  bool crlf;
  kj::Vector<Edit> edits;

  void addText(kj::Vector<char>& out, kj::StringPtr text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (crlf && text[i] == '\n' && (i == 0 || text[i - 1] != '\r')) out.add('\r');
      out.add(text[i]);
    }
  }

  void edit(size_t begin, size_t end, kj::String text) {
    if (begin > end) throw Unclear();
    edits.add(Edit{begin, end, kj::mv(text)});
  }

  void diff(Slot slot, const YamlNode& node, const Value& was, const Value& now) {
    if (now.origin == &node && !now.touched) return;
    bool leaf = was.members.empty() && now.members.empty();
    if (leaf && isSame(was, now)) return;
    bool sameKind = was.kind == now.kind && !was.members.empty() && !now.members.empty();
    bool open = sameKind && !node.decorated && !node.merged &&
                (slot.kind == Slot::Kind::kRoot || !SourceText::isAlias(node, slot.after));
    size_t before = edits.size();
    if (open) {
      try {
        if (node.flow)
          diffFlow(node, was, now);
        else if (node.kind == Kind::kMapping)
          diffMapping(node, was, now);
        else
          diffSequence(node, was, now);
        return;
      } catch (Unclear&) {
        edits.truncate(before);
      }
    }
    if (isSame(was, now)) return;
    replace(slot, node, now);
  }

  // Returns the text of `value` after the ":" or "-" of the slot, without its last newline. If the
  // first line has content, it begins with a blank.
  kj::String rendered(Slot slot, const Value& value) {
    auto& node = renderer.node(value);
    kj::String text;
    size_t cut = slot.column;
    if (slot.kind == Slot::Kind::kKey) {
      text = codec::renderYamlEntry("k", node, unit, slot.column);
      cut += 2;
    } else if (slot.kind == Slot::Kind::kItem) {
      text = codec::renderYaml(renderer.listOf(node), unit, slot.column);
      cut += 1;
    } else {
      text = codec::renderYaml(node, unit, slot.column);
    }
    size_t end = text.size();
    if (end > cut && text[end - 1] == '\n') --end;
    return kj::heapString(text.slice(cut, end));
  }

  void replace(Slot slot, const YamlNode& node, const Value& now) {
    bool root = slot.kind == Slot::Kind::kRoot;
    size_t begin = root ? node.begin : source.beginOf(node, slot.after);
    size_t end = source.endOf(node, root ? node.begin : slot.after);
    bool keepFlow = node.flow && !now.members.empty() && now.kind == node.kind &&
                    node.items.size() + node.entries.size() > 0;
    if (slot.kind == Slot::Kind::kFlow || keepFlow)
      return edit(begin, end, FlowWriter(json).write(now));
    auto text = rendered(slot, now);
    if (root) {
      bool ownLine = source.isFirstOfLine(begin);
      return edit(begin, end, ownLine ? kj::mv(text) : kj::str("\n", text));
    }
    size_t newline = text.findFirst('\n').orDefault(text.size());
    auto first = kj::heapString(text.slice(0, newline));
    auto rest = kj::str(text.slice(newline));
    if (source.isInOneLine(slot.after, end)) {
      // A comment after the value stays there.
      bool blank = begin > slot.after && first.size() > 0;
      edit(blank ? begin : slot.after, end, blank ? kj::str(first.slice(1)) : kj::mv(first));
      size_t last = source.lineEnd(end);
      edit(last, last, kj::mv(rest));
    } else if (source.isInOneLine(slot.after, begin)) {
      edit(slot.after, end, kj::mv(text));
    } else {
      edit(slot.after, slot.after, kj::mv(first));
      edit(source.lineEnd(slot.after), end, kj::mv(rest));
    }
  }

  // The text range of one entry or item of a block collection.
  struct Part {
    size_t position;  // position of the key or the dash
    size_t after;
    size_t end;
    size_t lead;  // start of its comment's line, or its own line
    bool ownLine;
  };

  Part part(size_t position, size_t after, const YamlNode& value, size_t floor) {
    bool own = source.isFirstOfLine(position);
    return {position, after, source.endOf(value, after),
            own ? source.leadStart(position, floor) : position, own};
  }

  void remove(const Part& part, const Part* next, bool isFirstOfDocument) {
    if (part.ownLine) {
      // A comment at the very beginning belongs to the file.
      size_t lead =
          isFirstOfDocument && part.lead == 0 ? source.lineStart(part.position) : part.lead;
      size_t end = source.lineEnd(part.end);
      if (lead > 0) return edit(source.beforeLine(lead), end, kj::str());
      while (end < source.end && source.text[end] != '\n') ++end;
      return edit(0, std::min(end + 1, source.end), kj::str());
    }
    if (next == nullptr || source.hasComment(part.end, next->position)) throw Unclear();
    edit(part.position, next->position, kj::str());
  }

  void insertBehind(size_t position, kj::String lines) {
    size_t end = source.lineEnd(position);
    edit(end, end, kj::str("\n", lines));
  }

  void diffMapping(const YamlNode& node, const Value& was, const Value& now) {
    std::map<std::string_view, const Value*> wanted;
    for (auto& m : now.members)
      wanted.emplace(std::string_view(m.key.begin(), m.key.size()), m.value);
    std::vector<Part> parts;
    size_t column = node.entries[0].place.column - 1, floor = 0;
    for (auto& entry : node.entries) {
      parts.push_back(part(entry.begin, source.afterKey(entry), *entry.value, floor));
      floor = parts.back().end;
    }
    std::vector<bool> stays(parts.size());
    kj::Maybe<size_t> kept;
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& key = node.entries[i].key;
      auto found = wanted.find({key.begin(), key.size()});
      if (found == wanted.end()) continue;
      kept = i;
      stays[i] = true;
      Slot slot{Slot::Kind::kKey, parts[i].after, column};
      diff(slot, *node.entries[i].value, *was.members[i].value, *found->second);
      wanted.erase(found);
    }
    size_t last = KJ_UNWRAP_OR(kept, throw Unclear());
    for (auto& member : now.members) {
      if (wanted.count({member.key.begin(), member.key.size()}) == 0) continue;
      auto& below = renderer.node(*member.value);
      auto text = codec::renderYamlEntry(member.key, below, unit, column);
      insertBehind(parts[last].end, kj::heapString(text.slice(0, text.size() - 1)));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (stays[i]) continue;
      bool nextStays = i + 1 < parts.size() && stays[i + 1];
      remove(parts[i], nextStays ? &parts[i + 1] : nullptr, parts[i].lead == 0);
    }
  }

  // Matches each item of `now` with its item in the original sequence, in order.
  std::vector<kj::Maybe<size_t>> match(const YamlNode& node, const Value& was, const Value& now) {
    std::vector<kj::Maybe<size_t>> result(now.members.size());
    // The item of an anchor may occur several times.
    std::set<std::pair<const YamlNode*, size_t>> places;
    for (size_t k = 0; k < node.items.size(); ++k) places.emplace(node.items[k], k);
    size_t next = 0;
    bool any = false;
    for (size_t i = 0; i < result.size(); ++i) {
      auto* origin = now.members[i].value->origin;
      auto place = places.lower_bound({origin, next});
      if (place == places.end() || place->first != origin) continue;
      result[i] = place->second;
      next = place->second + 1;
      any = true;
    }
    if (any) return result;
    // For a rewritten list, matches the equal items at its start and its end.
    size_t shorter = std::min(was.members.size(), now.members.size()), begin = 0, end = 0;
    auto same = [&](size_t i, size_t k) {
      return isSame(*was.members[i].value, *now.members[k].value);
    };
    while (begin < shorter && same(begin, begin)) result[begin] = begin, ++begin;
    while (end < shorter - begin &&
           same(was.members.size() - 1 - end, now.members.size() - 1 - end)) {
      result[now.members.size() - 1 - end] = was.members.size() - 1 - end;
      ++end;
    }
    return result;
  }

  void diffSequence(const YamlNode& node, const Value& was, const Value& now) {
    auto dashes = source.afterDashes(node);
    std::vector<Part> parts;
    size_t floor = 0, column = node.place.column - 1;
    for (size_t i = 0; i < dashes.size(); ++i) {
      parts.push_back(part(dashes[i] - 1, dashes[i], *node.items[i], floor));
      floor = parts.back().end;
    }
    auto matched = match(node, was, now);
    size_t old = 0, i = 0;
    while (i <= matched.size()) {
      // The items up to the next matched item replace each other in order.
      size_t stop = i;
      while (stop < matched.size() && matched[stop] == nullptr) ++stop;
      size_t oldStop = stop < matched.size() ? KJ_ASSERT_NONNULL(matched[stop]) : parts.size();
      for (; i < stop && old < oldStop; ++i, ++old) {
        diff({Slot::Kind::kItem, parts[old].after, column}, *node.items[old],
             *was.members[old].value, *now.members[i].value);
      }
      if (i < stop) {
        if (old == 0 && !parts[0].ownLine) throw Unclear();
        for (; i < stop; ++i) insertItem(parts, old, *now.members[i].value, column);
      }
      for (; old < oldStop; ++old) {
        bool nextStays = old + 1 == oldStop && oldStop < parts.size();
        remove(parts[old], nextStays ? &parts[oldStop] : nullptr, parts[old].lead == 0);
      }
      if (stop == matched.size()) break;
      diff({Slot::Kind::kItem, parts[old].after, column}, *node.items[old], *was.members[old].value,
           *now.members[stop].value);
      i = stop + 1, ++old;
    }
  }

  // Inserts before the item `next`, or at the end if `next` is the number of items.
  void insertItem(const std::vector<Part>& parts, size_t next, const Value& value, size_t column) {
    auto& list = renderer.listOf(renderer.node(value));
    auto text = codec::renderYaml(list, unit, column);
    if (next > 0) {
      insertBehind(parts[next - 1].end, kj::heapString(text.slice(0, text.size() - 1)));
    } else {
      size_t lead = parts[0].lead;
      edit(lead, lead, kj::mv(text));
    }
  }

  // Changes texts in brackets one by one if nothing else changes; otherwise writes the collection
  // again, on one line.
  void diffFlow(const YamlNode& node, const Value& was, const Value& now) {
    if (was.members.size() != now.members.size()) throw Unclear();
    for (size_t i = 0; i < was.members.size(); ++i) {
      if (was.members[i].key != now.members[i].key) throw Unclear();
    }
    for (size_t i = 0; i < was.members.size(); ++i) {
      bool mapping = node.kind == Kind::kMapping;
      auto& below = mapping ? *node.entries[i].value : *node.items[i];
      size_t after = mapping ? source.afterKey(node.entries[i]) : node.begin + 1;
      if (below.kind == Kind::kNull && !isSame(*was.members[i].value, *now.members[i].value))
        throw Unclear();
      diff({Slot::Kind::kFlow, after, 0}, below, *was.members[i].value, *now.members[i].value);
    }
  }
};

}  // namespace

kj::String splice(const YamlStream& stream, Region region, const Value& was, const Value& now) {
  Splicer splicer(stream, region, was, true);
  try {
    splicer.change(was, now);
    return splicer.result();
  } catch (Unclear&) {
    return rewrite(stream, region, was, now, true);
  }
}

kj::String rewrite(const YamlStream& stream, Region region, const Value& was, const Value& now,
                   bool keepText) {
  if (keepText) {
    Splicer splicer(stream, region, was, true);
    try {
      splicer.replaceAll(was, now);
      return splicer.result();
    } catch (Unclear&) {
    }
  }
  Splicer splicer(stream, region, was, keepText);
  splicer.replaceRegion(was, now);
  return splicer.result();
}

kj::String newDocument(const YamlStream& stream, const YamlNode& origin, const Value& document,
                       bool keepText) {
  SourceText source(stream.text(), stream.text().size());
  Renderer renderer(stream, source, origin, keepText);
  auto& node = renderer.node(document);
  unsigned unit = indentOf(origin);
  auto text = node.kind == Kind::kRaw ? kj::str(node.text)
                                      : codec::renderYaml(node, unit == 0 ? 4 : unit, 0);
  if (text.endsWith("\n")) return text;
  auto line = kj::str(text, "\n");
  zeroize(text.asArray());
  return line;
}

}  // namespace talos::patch
