#include "common/cel/cel-expression.h"

#include <stdlib.h>

#include "common/text/ascii.h"
#include "common/text/foreign-text.h"

namespace talos::cel {
namespace {

using Kind = Expression::Kind;

constexpr size_t kLongest = 4096;   // characters of a text
constexpr size_t kMostNodes = 512;  // also bounds the depth of a chain such as a + b + c
constexpr size_t kDeepest = 32;     // parentheses, prefixes and branches around an operand
constexpr size_t kShown = 20;       // characters of the text in a message

// Operators by their precedence, the weakest first. Longer ones are before their beginnings.
constexpr kj::StringPtr kOr[] = {"||"_kj}, kAnd[] = {"&&"_kj},
                        kRelations[] = {"<="_kj, ">="_kj, "=="_kj, "!="_kj,
                                        "<"_kj,  ">"_kj,  "in"_kj},
                        kSums[] = {"+"_kj, "-"_kj}, kProducts[] = {"*"_kj, "/"_kj, "%"_kj};
constexpr kj::ArrayPtr<const kj::StringPtr> kLevels[] = {kOr, kAnd, kRelations, kSums, kProducts};

bool isNameStart(char c) {
  return isLower(c) || isUpper(c) || c == '_';
}
bool isNamePart(char c) {
  return isNameStart(c) || isDigit(c);
}

class Parser {
 public:
  explicit Parser(kj::StringPtr text) : text(text) {}

  Expression whole() {
    if (text.size() > kLongest) wrong(kj::str("more than ", kLongest, " characters"));
    auto result = expression();
    if (peek() != '\0' || at < text.size()) wrong("this is not expected");
    return result;
  }

 private:
  kj::StringPtr text;
  size_t at = 0, nodes = 0, depth = 0;

  struct Deeper {
    explicit Deeper(Parser& parser) : parser(parser) {
      if (++parser.depth > kDeepest) parser.wrong("too many parentheses or operators in a row");
    }
    ~Deeper() { --parser.depth; }
    Parser& parser;
  };

  [[noreturn]] void wrong(kj::StringPtr message) const { throw Mistake{at, kj::str(message)}; }

  char here() const { return at < text.size() ? text[at] : '\0'; }
  char peek() {
    while (here() == ' ' || here() == '\n' || here() == '\t' || here() == '\r') ++at;
    return here();
  }
  bool take(kj::StringPtr token) {
    peek();
    if (!text.slice(at).startsWith(token)) return false;
    auto end = at + token.size();
    // The operator `in` is not the beginning of a name.
    if (isNameStart(token[0]) && end < text.size() && isNamePart(text[end])) return false;
    at = end;
    return true;
  }
  void need(kj::StringPtr token) {
    if (!take(token)) wrong(kj::str("expected ", token));
  }

  Expression node(Kind kind, size_t begin, kj::String name = nullptr) {
    if (++nodes > kMostNodes) wrong("the expression has too many parts");
    Expression result;
    result.kind = kind;
    result.at = begin;
    result.name = kj::mv(name);
    return result;
  }

  Expression expression() {
    Deeper deeper(*this);
    auto condition = operators(0);
    if (!take("?")) return condition;
    auto result = node(Kind::kCall, condition.at, kj::str("?:"));
    result.parts.push_back(kj::mv(condition));
    result.parts.push_back(expression());
    need(":");
    result.parts.push_back(expression());
    return result;
  }

  kj::StringPtr takeOperator(size_t level) {
    for (auto& token : kLevels[level]) {
      if (take(token)) return token;
    }
    return "";
  }

  Expression operators(size_t level) {
    if (level == kj::size(kLevels)) return prefixed();
    auto left = operators(level + 1);
    for (;;) {
      auto token = takeOperator(level);
      if (token.size() == 0) return left;
      auto both = node(Kind::kCall, left.at, kj::str(token));
      both.parts.push_back(kj::mv(left));
      both.parts.push_back(operators(level + 1));
      left = kj::mv(both);
    }
  }

  Expression prefixed() {
    Deeper deeper(*this);
    peek();
    auto begin = at;
    for (auto token : {"!"_kj, "-"_kj}) {
      if (!take(token)) continue;
      auto result = node(Kind::kCall, begin, kj::str(token));
      result.parts.push_back(prefixed());
      return result;
    }
    return suffixed();
  }

  Expression suffixed() {
    auto target = operand();
    for (;;) {
      if (take("[")) {
        auto result = node(Kind::kCall, target.at, kj::str("[]"));
        result.parts.push_back(kj::mv(target));
        result.parts.push_back(expression());
        need("]");
        target = kj::mv(result);
      } else if (take(".")) {
        auto begin = target.at;
        auto result = named(begin, Kind::kMember);
        result.parts.insert(result.parts.begin(), kj::mv(target));
        result.isMethod = result.kind == Kind::kCall;
        target = kj::mv(result);
      } else {
        return target;
      }
    }
  }

  // Reads a name, which has the kind `plain`, or a call.
  Expression named(size_t begin, Kind plain) {
    peek();
    auto from = at;
    if (!isNameStart(here())) wrong("expected a name");
    while (isNamePart(here())) ++at;
    auto name = kj::heapString(text.slice(from, at));
    if (!take("(")) return node(plain, begin, kj::mv(name));
    auto call = node(Kind::kCall, begin, kj::mv(name));
    if (take(")")) return call;
    do call.parts.push_back(expression());
    while (take(","));
    need(")");
    return call;
  }

  Expression operand() {
    char c = peek();
    auto begin = at;
    if (take("(")) {
      auto inner = expression();
      need(")");
      return inner;
    }
    if (c == '{') return mapping();
    if (c == '[') return list();
    if (c == '"' || c == '\'') return quoted(c);
    if (isDigit(c) || (c == '.' && at + 1 < text.size() && isDigit(text[at + 1]))) return number();
    for (bool value : {true, false}) {
      if (!take(value ? "true"_kj : "false"_kj)) continue;
      auto result = node(Kind::kBool, begin);
      result.flag = value;
      return result;
    }
    if (!isNameStart(c)) wrong(c == '\0' ? "an operand is missing"_kj : "this is not expected"_kj);
    return named(begin, Kind::kName);
  }

  Expression mapping() {
    auto result = node(Kind::kMap, at);
    need("{");
    if (take("}")) return result;
    do {
      if (peek() == '}') break;  // after the last comma
      result.parts.push_back(expression());
      need(":");
      result.parts.push_back(expression());
    } while (take(","));
    need("}");
    return result;
  }

  Expression list() {
    auto result = node(Kind::kList, at);
    need("[");
    do {
      if (peek() == ']') break;  // also after the last comma
      result.parts.push_back(expression());
    } while (take(","));
    need("]");
    return result;
  }

  Expression quoted(char quote) {
    auto begin = at;
    kj::Vector<char> value;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\\') wrong("texts here have no \\");
      if (text[at] == '\n') break;
      value.add(text[at]);
    }
    if (here() != quote) wrong("the text has no end");
    ++at;
    value.add('\0');
    return node(Kind::kText, begin, kj::String(value.releaseAsArray()));
  }

  void digits() {
    while (isDigit(here())) ++at;
  }
  Expression number() {
    auto begin = at;
    if (text.slice(at).startsWith("0x")) wrong("numbers here are decimal");
    digits();
    bool fraction = false;
    if (here() == '.') {
      fraction = true;
      ++at;
      digits();
    }
    if (here() == 'e' || here() == 'E') {
      fraction = true;
      ++at;
      if (here() == '+' || here() == '-') ++at;
      digits();
    }
    auto digitsOf = kj::heapString(text.slice(begin, at));
    auto result = fraction ? decimal(begin, digitsOf) : integer(begin, digitsOf);
    if (isNamePart(here())) wrong("this is not expected");
    return result;
  }
  Expression decimal(size_t begin, kj::StringPtr digits) {
    auto result = node(Kind::kDouble, begin);
    char* end;
    result.number = strtod(digits.cStr(), &end);
    if (*end != '\0') wrong("the number has no end");
    return result;
  }
  Expression integer(size_t begin, kj::StringPtr digits) {
    bool isUint = here() == 'u' || here() == 'U';
    auto result = node(isUint ? Kind::kUint : Kind::kInt, begin);
    auto value = digits.tryParseAs<uint64_t>();
    KJ_IF_MAYBE (v, value) {
      if (isUint || *v <= uint64_t(INT64_MAX)) {
        if (isUint) ++at;
        result.natural = *v;
        result.integer = isUint ? 0 : static_cast<int64_t>(*v);
        return result;
      }
    }
    at = begin;
    wrong("the number is too large");
  }
};

}  // namespace

kj::String render(kj::StringPtr text, const Mistake& mistake) {
  auto rest = text.slice(kj::min(mistake.at, text.size()));
  auto shown = rest.size() > kShown ? kj::str(rest.slice(0, kShown), "…") : kj::str(rest);
  return kj::str("at ", shown.size() == 0 ? kj::str("its end") : jsonString(shown), ": ",
                 mistake.message);
}

Parsed parse(kj::StringPtr text) {
  Parsed result;
  try {
    result.expression = Parser(text).whole();
  } catch (Mistake& mistake) {
    result.mistake = kj::mv(mistake);
  }
  return result;
}

}  // namespace talos::cel
