// JSON Patch, RFC 6902, with the pointers of RFC 6901.

#include "common/text/foreign-text.h"
#include "talosctl/config/patch-value.h"

namespace talos::patch {
namespace {

constexpr size_t kMostKeysShown = 12;
constexpr size_t kCopy = 50;           // cost of copying a node, relative to reading it
constexpr size_t kMaxKeyBytes = 1024;  // limit of common/yaml/yaml.cc

enum class Verb { kAdd, kRemove, kReplace, kMove, kCopy, kTest };

struct VerbName {
  kj::StringPtr name;
  Verb verb;
};
constexpr VerbName kVerbs[] = {
    {"add"_kj, Verb::kAdd},   {"remove"_kj, Verb::kRemove}, {"replace"_kj, Verb::kReplace},
    {"move"_kj, Verb::kMove}, {"copy"_kj, Verb::kCopy},     {"test"_kj, Verb::kTest},
};

using Tokens = std::vector<kj::StringPtr>;

struct Operation {
  codec::Place place;
  Verb verb;
  Tokens path, from;
  const YamlNode* value = nullptr;
};

// --- reading -----------------------------------------------------------------------------------

kj::StringPtr keep(Texts& texts, kj::Vector<char>& token) {
  return texts.copyString(kj::heapString(token.asPtr()));
}

// Parses a pointer; nullptr if the text is not a pointer.
kj::Maybe<Tokens> readPointer(kj::StringPtr text, Texts& texts) {
  Tokens tokens;
  if (text.size() == 0) return tokens;
  if (text[0] != '/') return nullptr;
  kj::Vector<char> token;
  for (size_t i = 1; i < text.size(); ++i) {
    char c = text[i];
    if (c == '/') {
      tokens.push_back(keep(texts, token));
      token.clear();
    } else if (c == '~') {
      ++i;
      if (text[i] != '0' && text[i] != '1') return nullptr;
      token.add(text[i] == '0' ? '~' : '/');
    } else {
      token.add(c);
    }
  }
  tokens.push_back(keep(texts, token));
  return tokens;
}

// Returns the pointer to the first `count` tokens.
kj::String pointerTo(const Tokens& tokens, size_t count) {
  kj::Vector<char> out;
  for (size_t i = 0; i < count; ++i) {
    out.add('/');
    for (char c : tokens[i]) {
      if (c == '~')
        out.addAll("~0"_kj);
      else if (c == '/')
        out.addAll("~1"_kj);
      else
        out.add(c);
    }
  }
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

class Reader {
 public:
  Reader(Texts& texts, Problems& problems, kj::StringPtr file)
      : texts(texts), problems(problems), file(file) {}

  std::vector<Operation> read(const YamlNode& list) {
    std::vector<Operation> operations;
    for (auto* item : list.items) {
      KJ_IF_MAYBE (operation, readOne(*item)) operations.push_back(kj::mv(*operation));
    }
    return operations;
  }

 private:
  Texts& texts;
  Problems& problems;
  kj::StringPtr file;
  size_t count = 0;

  void report(codec::Place place, kj::String message, kj::String hint = kj::str()) {
    if (count++ >= codec::kMaxProblems) return;
    auto& problem = problems.add();
    problem.file = kj::str(file);
    problem.line = place.line;
    problem.column = place.column;
    problem.message = kj::mv(message);
    problem.hint = kj::mv(hint);
  }

  static const YamlNode* member(const YamlNode& node, kj::StringPtr key) {
    for (auto& entry : node.entries) {
      if (entry.key == key) return entry.value;
    }
    return nullptr;
  }

  kj::Maybe<Operation> readOne(const YamlNode& node) {
    if (node.kind != Kind::kMapping) {
      report(node.place, kj::str("not a valid JSON Patch operation"),
             kj::str("use for example {\"op\": \"replace\", \"path\": \"/machine/type\", "
                     "\"value\": \"init\"}"));
      return nullptr;
    }
    Operation operation{.place = node.place, .verb = Verb::kTest, .path = {}, .from = {}};
    bool good = readVerb(node, operation);
    good = readPath(node, "path", operation.path) && good;
    bool moves = operation.verb == Verb::kMove || operation.verb == Verb::kCopy;
    if (good && moves) good = readPath(node, "from", operation.from);
    bool needsValue = !moves && operation.verb != Verb::kRemove;
    operation.value = member(node, "value");
    if (good && needsValue && operation.value == nullptr) {
      report(node.place, kj::str("the operation has no \"value\""));
      return nullptr;
    }
    if (!good) return nullptr;
    return kj::mv(operation);
  }

  bool readVerb(const YamlNode& node, Operation& operation) {
    auto* verb = member(node, "op");
    if (verb == nullptr) {
      report(node.place, kj::str("the operation has no \"op\""),
             kj::str("use add, remove, replace, move, copy or test"));
      return false;
    }
    kj::Vector<kj::StringPtr> names;
    for (auto& row : kVerbs) {
      if (verb->kind == Kind::kScalar && verb->text == row.name) {
        operation.verb = row.verb;
        return true;
      }
      names.add(row.name);
    }
    auto hint = kj::str("use one of ", kj::strArray(names, ", "));
    KJ_IF_MAYBE (name, closest(verb->text, names)) hint = kj::str("did you mean \"", *name, "\"?");
    report(verb->place, kj::str(jsonString(verb->text), " is not a valid JSON Patch operation"),
           kj::mv(hint));
    return false;
  }

  bool readPath(const YamlNode& node, kj::StringPtr key, Tokens& tokens) {
    auto* text = member(node, key);
    if (text == nullptr || text->kind != Kind::kScalar) {
      report(text == nullptr ? node.place : text->place,
             text == nullptr ? kj::str("the operation has no \"", key, "\"")
                             : kj::str("\"", key, "\" must be a string"),
             kj::str("use for example /machine/network/hostname"));
      return false;
    }
    KJ_IF_MAYBE (read, readPointer(text->text, texts)) {
      for (auto token : *read) {
        if (token.size() <= kMaxKeyBytes) continue;
        report(text->place, kj::str("the path has a key longer than ", kMaxKeyBytes, " bytes"));
        return false;
      }
      tokens = kj::mv(*read);
      return true;
    }
    report(text->place, kj::str(jsonString(text->text), " is not a valid JSON pointer"),
           text->text.startsWith("/")
               ? kj::str("write ~ as ~0, and / in a key as ~1")
               : kj::str("it must start with \"/\", such as /machine/network/hostname"));
    return false;
  }
};

// --- doing -------------------------------------------------------------------------------------

class Machine {
 public:
  Machine(kj::Own<Value>& document, Budget& budget, const PatchNames& names, Problems& problems)
      : document(document), budget(budget), names(names), leftOut{names, problems} {}

  void apply(const Operation& o) {
    place = o.place;
    switch (o.verb) {
      case Verb::kAdd:
        return add(o.path, take(*o.value));
      case Verb::kRemove:
        if (isLeftOut(o.path)) return leftOut.warn(place, pointerTo(o.path, o.path.size()));
        remove(o.path);
        return;
      case Verb::kReplace:
        return replace(o.path, take(*o.value));
      case Verb::kMove:
        return move(o.from, o.path);
      case Verb::kCopy: {
        auto& from = reach(o.from, o.from.size());
        budget.spend(from.size() * kCopy);
        return add(o.path, clone(from));
      }
      case Verb::kTest:
        return test(o.path, *o.value);
    }
  }

 private:
  kj::Own<Value>& document;
  Budget& budget;
  const PatchNames& names;
  LeftOutKeys leftOut;
  codec::Place place;  // place of the operation

  [[noreturn]] void refuse(const Tokens& path, kj::String message, kj::String hint = kj::str()) {
    auto pointer = path.empty() ? kj::str("\"\"") : pointerTo(path, path.size());
    throw Refusal{place, kj::mv(pointer), kj::mv(message), kj::mv(hint)};
  }

  // Converts a value of the patch, which has no place in the document.
  kj::Own<Value> take(const YamlNode& node) {
    budget.spend(node.size);
    auto value = valueOf(node);
    forget(*value);
    return value;
  }
  static void forget(Value& value) {
    value.origin = nullptr;
    value.touched = true;
    for (auto& member : value.members) forget(*member.value);
  }

  static kj::String nameOf(const Tokens& path, size_t count) {
    return count == 0 ? kj::str("the document") : pointerTo(path, count);
  }

  static kj::String contentOf(const Value& value, kj::StringPtr wanted) {
    switch (value.kind) {
      case Kind::kSequence:
        return kj::str("has ", value.members.size(), value.members.size() == 1 ? " item" : " items",
                       ", counted from 0");
      case Kind::kMapping: {
        if (value.members.empty()) return kj::str("is empty");
        kj::Vector<kj::StringPtr> keys;
        for (auto& member : value.members) keys.add(member.key);
        KJ_IF_MAYBE (near, closest(wanted, keys))
          return kj::str("has ", jsonString(*near), "; did you mean that?");
        size_t shown = kj::min(keys.size(), kMostKeysShown);
        auto quoted = KJ_MAP(key, keys.asPtr().slice(0, shown)) {
          return jsonString(key);
        };
        return kj::str("has ", kj::strArray(quoted, ", "), shown < keys.size() ? ", …" : "");
      }
      case Kind::kNull:
        return kj::str("is empty");
      default:
        return kj::str("is a single value");
    }
  }

  [[noreturn]] void refuseMissing(const Tokens& path, size_t known, const Value& parent) {
    refuse(path, kj::str("no such path"),
           kj::str(nameOf(path, known), " ", contentOf(parent, path[known])));
  }

  // Returns the list index in a token; nullptr if the token is not an index (RFC 6901, section 4).
  static kj::Maybe<size_t> indexOf(kj::StringPtr token) {
    if (token.size() == 0 || token.size() > 9 || (token[0] == '0' && token.size() > 1))
      return nullptr;
    size_t index = 0;
    for (char c : token) {
      if (c < '0' || c > '9') return nullptr;
      index = index * 10 + (c - '0');
    }
    return index;
  }

  // Returns the member of `parent` to which the token at `depth` leads; nullptr if it does not
  // exist.
  kj::Maybe<size_t> locate(const Value& parent, const Tokens& path, size_t depth) {
    if (parent.kind == Kind::kMapping) {
      budget.spend(parent.members.size());
      return find(parent, path[depth]);
    }
    if (parent.kind != Kind::kSequence) return nullptr;
    KJ_IF_MAYBE (index, indexOf(path[depth])) {
      if (*index < parent.members.size()) return *index;
    } else if (path[depth] != "-") {
      refuse(path, kj::str(jsonString(path[depth]), " is not a valid list index"),
             kj::str(nameOf(path, depth), " is a list; use 0, 1, …, or - to append"));
    }
    return nullptr;
  }

  // Returns the value at the first `count` tokens.
  Value& reach(const Tokens& path, size_t count, bool touch = false) {
    Value* value = document.get();
    for (size_t i = 0; i < count; ++i) {
      if (touch) value->touched = true;
      KJ_IF_MAYBE (index, locate(*value, path, i)) {
        value = value->members[*index].value.get();
      } else {
        refuseMissing(path, i, *value);
      }
    }
    if (touch) value->touched = true;
    return *value;
  }

  Kind impliedKind(const Tokens& path, size_t count) const {
    if (names.shapeOf == nullptr) return Kind::kNull;
    switch (names.shapeOf(kj::arrayPtr(path.data(), count))) {
      case Shape::kMapping:
        return Kind::kMapping;
      case Shape::kList:
        return Kind::kSequence;
      case Shape::kUnknown:
        return Kind::kNull;
    }
    KJ_UNREACHABLE;
  }

  // Returns the value at all tokens but the last, and creates it if its shape is known.
  Value& makeParent(const Tokens& path) {
    Value* value = document.get();
    for (size_t i = 0;; ++i) {
      value->touched = true;
      if (value->kind == Kind::kNull && i > 0) value->kind = impliedKind(path, i);
      if (i + 1 == path.size()) return *value;
      KJ_IF_MAYBE (index, locate(*value, path, i)) {
        value = value->members[*index].value.get();
        continue;
      }
      auto kind = impliedKind(path, i + 1);
      if (value->kind != Kind::kMapping || kind == Kind::kNull) refuseMissing(path, i, *value);
      auto made = kj::heap<Value>();
      made->kind = kind;
      auto& added = *made;
      value->members.push_back({path[i], kj::mv(made)});
      value = &added;
    }
  }

  void checkDepth(const Tokens& path, const Value& value) {
    if (path.size() + value.height() > codec::kMaxDepth)
      refuse(path, kj::str("nested deeper than ", codec::kMaxDepth, " levels"));
  }

  void add(const Tokens& path, kj::Own<Value> value) {
    checkDepth(path, *value);
    if (path.empty()) {
      document = kj::mv(value);
      return;
    }
    size_t last = path.size() - 1;
    auto& parent = makeParent(path);
    auto& members = parent.members;
    auto found = locate(parent, path, last);
    if (parent.kind == Kind::kMapping) {
      KJ_IF_MAYBE (index, found) {
        members[*index].value = kj::mv(value);
      } else {
        members.push_back({path[last], kj::mv(value)});
      }
    } else if (parent.kind == Kind::kSequence) {
      size_t index = members.size();
      if (path[last] != "-") index = KJ_ASSERT_NONNULL(indexOf(path[last]));
      if (index > members.size()) {
        refuse(path, kj::str("list index out of range"),
               kj::str(nameOf(path, last), " ", contentOf(parent, ""), "; use - to append"));
      }
      budget.spend(members.size() - index);
      members.insert(members.begin() + index, {"", kj::mv(value)});
    } else {
      refuse(path, kj::str("cannot add a value here"),
             kj::str(nameOf(path, last), " ", contentOf(parent, ""),
                     "; add a whole mapping or list there"));
    }
  }

  // Returns true if a generated document left out the key at the path, or a parent of it.
  bool isLeftOut(const Tokens& path) {
    if (!leftOut.has(kj::arrayPtr(path.data(), path.size()))) return false;
    const Value* value = document.get();
    for (size_t i = 0; i < path.size(); ++i) {
      KJ_IF_MAYBE (index, locate(*value, path, i)) {
        value = value->members[*index].value.get();
      } else {
        return value->kind == Kind::kMapping;
      }
    }
    return false;
  }

  kj::Own<Value> remove(const Tokens& path) {
    if (path.empty()) refuse(path, kj::str("cannot remove the whole document"));
    size_t last = path.size() - 1;
    auto& parent = reach(path, last, true);
    KJ_IF_MAYBE (index, locate(parent, path, last)) {
      auto position = parent.members.begin() + *index;
      budget.spend(parent.members.end() - position);
      auto value = kj::mv(position->value);
      parent.members.erase(position);
      return value;
    }
    refuseMissing(path, last, parent);
  }

  void replace(const Tokens& path, kj::Own<Value> value) {
    checkDepth(path, *value);
    if (path.empty()) {
      document = kj::mv(value);
      return;
    }
    size_t last = path.size() - 1;
    bool isKey = names.isKey != nullptr && names.isKey(kj::arrayPtr(path.data(), path.size()));
    auto& parent = isKey ? makeParent(path) : reach(path, last, true);
    KJ_IF_MAYBE (index, locate(parent, path, last)) {
      parent.members[*index].value = kj::mv(value);
    } else if (isKey && parent.kind == Kind::kMapping) {
      parent.members.push_back({path[last], kj::mv(value)});
    } else {
      refuseMissing(path, last, parent);
    }
  }

  void move(const Tokens& from, const Tokens& to) {
    bool prefix = from.size() <= to.size() && std::equal(from.begin(), from.end(), to.begin());
    auto& value = reach(from, from.size());
    if (prefix && from.size() == to.size()) return;
    if (prefix) refuse(to, kj::str("cannot move a value into itself"));
    budget.spend(value.size());
    add(to, remove(from));
  }

  void test(const Tokens& path, const YamlNode& expected) {
    auto& value = reach(path, path.size());
    budget.spend(kj::min(expected.size, value.size()));
    if (isEqual(value, *take(expected))) return;
    // The value may be a secret, so the message must not contain it.
    refuse(path, kj::str("test failed: the value differs"));
  }
};

}  // namespace

bool applyOperations(kj::Own<Value>& document, const YamlNode& patch, Texts& texts, Budget& budget,
                     Problems& problems, const PatchNames& names) {
  size_t before = problems.size();
  auto operations = Reader(texts, problems, names.patch).read(patch);
  if (problems.size() > before) return false;
  Machine machine(document, budget, names, problems);
  for (auto& operation : operations) machine.apply(operation);
  return true;
}

}  // namespace talos::patch
