#include "common/cel/cel-program.h"

#include <kj/debug.h>

#include "common/cel/cel-functions.h"

namespace talos::cel {
namespace {

using Kind = Expression::Kind;

[[noreturn]] void wrong(const Expression& at, kj::String message) {
  throw Mistake{at.at, kj::mv(message)};
}

kj::StringPtr hintFor(kj::ArrayPtr<const Type> types) {
  if (types.size() != 2 || types[0] == types[1]) return "";
  return "; convert one of them, as with double()";
}

// Returns the name of a member of a variable; "" for another member.
std::string memberName(const Expression& e) {
  if (e.parts[0].kind != Kind::kName) return {};
  return std::string(e.parts[0].name.cStr()) + "." + e.name.cStr();
}

class Checker {
 public:
  explicit Checker(const Environment& environment) : environment(environment) {}

  Type typeOf(const Expression& e) {
    switch (e.kind) {
      case Kind::kBool:
        return Type::kBool;
      case Kind::kInt:
        return Type::kInt;
      case Kind::kUint:
        return Type::kUint;
      case Kind::kDouble:
        return Type::kDouble;
      case Kind::kText:
        return Type::kText;
      case Kind::kName:
        return ofName(e);
      case Kind::kMember:
        return ofMember(e);
      case Kind::kMap:
        return ofMap(e);
      case Kind::kCall:
        return ofCall(e);
    }
    KJ_UNREACHABLE;
  }

 private:
  const Environment& environment;

  Type ofName(const Expression& e) const {
    auto variable = environment.variables.find(e.name.cStr());
    if (variable != environment.variables.end()) return variable->second;
    auto constant = environment.constants.find(e.name.cStr());
    if (constant != environment.constants.end()) return constant->second.type;
    wrong(e, kj::str("there is no variable ", e.name));
  }

  // A member of a variable is a variable itself: disk.size.
  Type ofMember(const Expression& e) const {
    auto name = memberName(e);
    auto variable = environment.variables.find(name);
    if (variable != environment.variables.end()) return variable->second;
    wrong(e, name.empty() ? kj::str("nothing here has members, and ", e.name, " is none")
                          : kj::str("there is no variable ", name.c_str()));
  }

  Type ofMap(const Expression& e) {
    for (auto i : kj::indices(e.parts)) {
      bool key = i % 2 == 0;
      auto type = typeOf(e.parts[i]);
      if (type == (key ? Type::kInt : Type::kDouble)) continue;
      wrong(
          e.parts[i],
          key ? kj::str("a key of a map is an int, such as System, and this is a ", nameOf(type))
              : kj::str("a value of a map is a double, such as 8.0, and this is a ", nameOf(type)));
    }
    return Type::kVector;
  }

  void need(const Expression& e, Type expected) {
    auto type = typeOf(e);
    if (type == expected) return;
    wrong(e, kj::str("expected a ", nameOf(expected), ", and this is a ", nameOf(type)));
  }

  Type ofCall(const Expression& e) {
    if (!e.isMethod && (e.name == "&&" || e.name == "||")) {
      for (auto& part : e.parts) need(part, Type::kBool);
      return Type::kBool;
    }
    if (!e.isMethod && e.name == "?:") {
      need(e.parts[0], Type::kBool);
      auto type = typeOf(e.parts[1]);
      need(e.parts[2], type);
      return type;
    }
    return ofFunction(e);
  }

  Type ofFunction(const Expression& e) {
    kj::Vector<Type> types;
    for (auto& part : e.parts) types.add(typeOf(part));
    if (auto function = findFunction(e.name, e.isMethod, types)) {
      bool constant = e.name == "duration" && e.parts[0].kind == Kind::kText;
      if (constant && nanosecondsIn(e.parts[0].name) == nullptr) {
        wrong(e.parts[0], kj::str("not a valid duration; for example \"5s\""));
      }
      return function->result;
    }
    if (!isFunction(e.name, e.isMethod)) {
      wrong(e, kj::str("this system has no ", e.isMethod ? "method " : "function ", e.name, "()"));
    }
    kj::Vector<kj::StringPtr> names;
    for (auto type : types) names.add(nameOf(type));
    wrong(e, kj::str(e.name, " does not take ",
                     names.empty() ? kj::str("no arguments") : kj::strArray(names, " and "),
                     hintFor(types)));
  }
};

class Evaluator {
 public:
  Evaluator(const Values& variables, const Values& constants)
      : variables(variables), constants(constants) {}

  Value valueOf(const Expression& e) {
    switch (e.kind) {
      case Kind::kBool:
        return Value::of(e.flag);
      case Kind::kInt:
        return Value::of(e.integer);
      case Kind::kUint:
        return Value::of(e.natural);
      case Kind::kDouble:
        return Value::of(e.number);
      case Kind::kText:
        return Value::of(kj::StringPtr(e.name));
      case Kind::kName:
        return ofName(e);
      case Kind::kMap:
        return ofMap(e);
      case Kind::kCall:
        return ofCall(e);
      case Kind::kMember:
        return ofVariable(memberName(e));
    }
    KJ_UNREACHABLE;
  }

 private:
  const Values& variables;
  const Values& constants;

  Value ofName(const Expression& e) const {
    auto constant = constants.find(e.name.cStr());
    if (constant != constants.end() && variables.count(e.name.cStr()) == 0) return constant->second;
    return ofVariable(e.name.cStr());
  }

  Value ofVariable(const std::string& name) const {
    auto variable = variables.find(name);
    KJ_REQUIRE(variable != variables.end(), "a variable has no value", name);
    return variable->second;
  }

  Value ofMap(const Expression& e) {
    Vector vector;
    for (size_t i = 0; i < e.parts.size(); i += 2) {
      auto key = valueOf(e.parts[i]).integer;
      if (!vector.emplace(key, valueOf(e.parts[i + 1]).number).second) {
        wrong(e.parts[i], kj::str("the map has this key twice"));
      }
    }
    return Value::of(kj::mv(vector));
  }

  // Returns the value of && or ||. An operand that decides the result hides a mistake of the other
  // one, as in CEL.
  Value ofLogic(const Expression& e) {
    bool deciding = e.name == "||";
    kj::Maybe<Mistake> mistake;
    for (auto& part : e.parts) {
      try {
        if (valueOf(part).flag == deciding) return Value::of(deciding);
      } catch (Mistake& found) {
        if (mistake == nullptr) mistake = kj::mv(found);
      }
    }
    KJ_IF_MAYBE (m, mistake) throw kj::mv(*m);
    return Value::of(!deciding);
  }

  Value ofCall(const Expression& e) {
    if (!e.isMethod && (e.name == "&&" || e.name == "||")) return ofLogic(e);
    if (!e.isMethod && e.name == "?:") return valueOf(e.parts[valueOf(e.parts[0]).flag ? 1 : 2]);
    std::vector<Value> arguments;
    kj::Vector<Type> types;
    for (auto& part : e.parts) {
      arguments.push_back(valueOf(part));
      types.add(arguments.back().type);
    }
    auto function = findFunction(e.name, e.isMethod, types);
    KJ_REQUIRE(function != nullptr, "an expression was not checked", e.name);
    try {
      return function->run(kj::arrayPtr(arguments.data(), arguments.size()));
    } catch (kj::StringPtr mistake) {
      wrong(e, kj::str(mistake));
    }
  }
};

}  // namespace

kj::StringPtr nameOf(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool"_kj;
    case Type::kInt:
      return "int"_kj;
    case Type::kUint:
      return "uint"_kj;
    case Type::kDouble:
      return "double"_kj;
    case Type::kText:
      return "string"_kj;
    case Type::kDuration:
      return "duration"_kj;
    case Type::kVector:
      return "map"_kj;
    case Type::kOptionalUint:
      return "optional"_kj;
  }
  KJ_UNREACHABLE;
}

Value Value::of(bool value) {
  return {.type = Type::kBool, .flag = value};
}
Value Value::of(int64_t value) {
  return {.type = Type::kInt, .integer = value};
}
Value Value::of(uint64_t value) {
  return {.type = Type::kUint, .natural = value};
}
Value Value::of(double value) {
  return {.type = Type::kDouble, .number = value};
}
Value Value::of(kj::StringPtr value) {
  return {.type = Type::kText, .text = std::string(value.begin(), value.size())};
}
Value Value::of(kj::Duration value) {
  return {.type = Type::kDuration, .integer = value / kj::NANOSECONDS};
}
Value Value::of(Vector value) {
  return {.type = Type::kVector, .vector = kj::mv(value)};
}
Value Value::of(kj::Maybe<uint64_t> value) {
  return {.type = Type::kOptionalUint, .flag = value != nullptr, .natural = value.orDefault(0)};
}

Evaluated Program::run(const Values& values) const {
  Evaluated result;
  try {
    result.value = Evaluator(values, constants).valueOf(expression);
  } catch (Mistake& mistake) {
    result.mistake = kj::mv(mistake);
  }
  return result;
}

Compiled compile(kj::StringPtr text, const Environment& environment, Type result) {
  Compiled compiled;
  auto parsed = parse(text);
  if (parsed.mistake != nullptr) {
    compiled.mistake = kj::mv(parsed.mistake);
    return compiled;
  }
  compiled.program.expression = kj::mv(parsed.expression);
  compiled.program.constants = environment.constants;
  auto& expression = compiled.program.expression;
  try {
    auto type = Checker(environment).typeOf(expression);
    if (type != result) {
      wrong(expression,
            kj::str("the result must be a ", nameOf(result), ", and this is a ", nameOf(type)));
    }
  } catch (Mistake& mistake) {
    compiled.mistake = kj::mv(mistake);
  }
  return compiled;
}

}  // namespace talos::cel
