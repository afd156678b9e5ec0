// The functions and operators of CEL programs, by the types of their arguments. Part of
// cel-program.h.
#pragma once

#include "common/cel/cel-program.h"

namespace talos::cel {

using Arguments = kj::ArrayPtr<const Value>;

struct Function {
  kj::StringPtr name;  // of operators: as in an expression
  bool isMethod;
  kj::ArrayPtr<const Type> arguments;
  Type result;
  Value (*run)(Arguments arguments);  // throws kj::StringPtr for a mistake in the values
};

// Returns nullptr if no function of the name takes arguments of these types.
const Function* findFunction(kj::StringPtr name, bool isMethod, kj::ArrayPtr<const Type> arguments);
bool isFunction(kj::StringPtr name, bool isMethod);

// Returns the duration of a text such as "-1h30m"; nullptr for other texts.
kj::Maybe<int64_t> nanosecondsIn(kj::StringPtr text);

}  // namespace talos::cel
