// Expressions in CEL, the Common Expression Language (https://cel.dev), as trees.
//
// Reads literals of bool, int, uint, double and string, names, members, calls, indexes, maps, lists
// and all operators. CEL's macros, messages, bytes and escapes in texts are mistakes. Takes any
// text: time, memory and the depth of recursion are bounded. Pure.
#pragma once

#include <kj/string.h>
#include <stdint.h>

#include <vector>

namespace talos::cel {

// A user's mistake, and its place in the text.
struct Mistake {
  size_t at;
  kj::String message;
};
// Returns "at "b + 1": <message>", with the text from the place of the mistake on, cut.
kj::String render(kj::StringPtr text, const Mistake& mistake);

struct Expression {
  enum class Kind { kBool, kInt, kUint, kDouble, kText, kName, kMember, kCall, kMap, kList };

  Kind kind = Kind::kBool;
  size_t at = 0;  // its first character in the text
  // A name, member, function or operator ("&&", "[]", "?:"); the value of a text.
  kj::String name = nullptr;
  // Operands and arguments, the target of a member or a method first; the items of a list; of a
  // map, keys and values in turn.
  std::vector<Expression> parts = {};
  bool isMethod = false;  // a call of a method
  bool flag = false;
  int64_t integer = 0;
  uint64_t natural = 0;
  double number = 0;

  bool isCall(kj::StringPtr function) const { return kind == Kind::kCall && name == function; }
};

struct Parsed {
  Expression expression;
  kj::Maybe<Mistake> mistake = nullptr;  // then the expression is not complete
};
Parsed parse(kj::StringPtr text);

}  // namespace talos::cel
