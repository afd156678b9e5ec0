// Programs in CEL: expressions whose types were checked, evaluated with values of variables.
//
// Types are bool, int, uint, double, string, duration, the map from int to double and the optional
// uint. Functions and operators are the rows of a table in cel-functions.cc; another one is a
// mistake that names it. A list stands after `in` only. Evaluation has no side effects and always
// ends. Pure.
#pragma once

#include <kj/time.h>

#include <map>
#include <string>

#include "common/cel/cel-expression.h"

namespace talos::cel {

enum class Type { kBool, kInt, kUint, kDouble, kText, kDuration, kVector, kOptionalUint };
kj::StringPtr nameOf(Type type);

using Vector = std::map<int64_t, double>;

// A value; only the members of its type count.
struct Value {
  Type type = Type::kBool;
  bool flag = false;     // of a bool; of an optional: whether it has a value
  int64_t integer = 0;   // of an int; of a duration in nanoseconds
  uint64_t natural = 0;  // of a uint or an optional
  double number = 0;
  std::string text = {};
  Vector vector = {};

  static Value of(bool value);
  static Value of(int64_t value);
  static Value of(uint64_t value);
  static Value of(double value);
  static Value of(kj::StringPtr value);
  static Value of(kj::Duration value);
  static Value of(Vector value);
  static Value of(kj::Maybe<uint64_t> value);
};

// Names that an expression may use; "disk.size" is the member size of the variable disk.
struct Environment {
  std::map<std::string, Type> variables = {};
  std::map<std::string, Value> constants = {};
};
using Values = std::map<std::string, Value>;  // of all variables

struct Evaluated {
  Value value;
  kj::Maybe<Mistake> mistake = nullptr;  // such as a division by zero; then there is no value
};

class Program {
 public:
  // Fails an assertion unless `values` has every variable of the environment with its type.
  Evaluated run(const Values& values) const;

 private:
  Expression expression;
  std::map<std::string, Value> constants;
  friend struct Compiled compile(kj::StringPtr text, const Environment& environment, Type result);
};

struct Compiled {
  Program program;
  kj::Maybe<Mistake> mistake = nullptr;  // then the program must not run
};
// Compiles an expression that has a result of this type.
Compiled compile(kj::StringPtr text, const Environment& environment, Type result);

}  // namespace talos::cel
