#include "common/cel/cel-program.h"

#include <kj/debug.h>

#include "common/base/problem.h"
#include "common/cel/cel-functions.h"

namespace talos::cel {
namespace {

using Kind = Expression::Kind;

[[noreturn]] void wrong(const Expression& at, kj::String message) {
  throw Mistake{at.at, kj::mv(message)};
}

constexpr size_t kMostNamed = 20;  // variables in a message

// Returns how to get two numbers of one type, for a call with these arguments.
kj::String hintFor(const Expression& call, kj::ArrayPtr<const Type> types) {
  if (types.size() != 2 || types[0] == types[1]) return kj::String();
  for (auto i : {0, 1}) {
    auto& literal = call.parts[i];
    if (literal.kind == Kind::kInt && types[1 - i] == Type::kUint)
      return kj::str("; write ", literal.integer, "u");
    if (literal.kind == Kind::kInt && types[1 - i] == Type::kDouble)
      return kj::str("; write ", literal.integer, ".0");
  }
  auto isOf = [&](Type type) { return types[0] == type || types[1] == type; };
  bool whole = isOf(Type::kInt) && isOf(Type::kUint);
  return kj::str("; convert one of them, as with ", whole ? "uint()" : "double()");
}

// Returns "disk." for "disk.size", and "" for "class".
kj::String ownerOf(kj::StringPtr name) {
  KJ_IF_MAYBE (dot, name.findFirst('.')) return kj::heapString(name.slice(0, *dot + 1));
  return kj::String();
}

// Returns what else an unknown name may be: " (did you mean disk.size?)", or the known ones.
kj::String othersThan(kj::StringPtr name, const Environment& environment) {
  kj::Vector<kj::StringPtr> names, members;
  kj::Vector<kj::String> shown;  // one for all members of a variable
  auto owner = ownerOf(name);
  for (auto& variable : environment.variables) {
    kj::StringPtr known = variable.first.c_str();
    auto its = ownerOf(known);
    if (its.size() > 0 && its == owner) members.add(known.slice(its.size()));
    if (its.size() == 0) names.add(known);
    auto text = its.size() > 0 ? kj::str(its, "…") : kj::str(known);
    if (shown.empty() || shown.back() != text) shown.add(kj::mv(text));
  }
  for (auto& constant : environment.constants) names.add(constant.first.c_str());
  bool member = !members.empty();
  auto own = name.slice(member ? owner.size() : 0);
  KJ_IF_MAYBE (like, closest(own, member ? members : names)) {
    return kj::str(" (did you mean ", owner.slice(0, member ? owner.size() : 0), *like, "?)");
  }
  if (member)
    return kj::str("; ", owner.slice(0, owner.size() - 1), " has ", kj::strArray(members, ", "));
  if (shown.size() > kMostNamed) return kj::String();
  return kj::str("; there are ", kj::strArray(shown, ", "));
}

bool isInList(const Expression& e) {
  return e.isCall("in") && !e.isMethod && e.parts.size() == 2 && e.parts[1].kind == Kind::kList;
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
      case Kind::kList:
        wrong(e, kj::str("a list stands after `in` only: disk.transport in [\"nvme\", \"sata\"]"));
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
    wrong(e, kj::str("there is no variable ", e.name, othersThan(e.name, environment)));
  }

  // A member of a variable is a variable itself: disk.size.
  Type ofMember(const Expression& e) const {
    auto name = memberName(e);
    auto variable = environment.variables.find(name);
    if (variable != environment.variables.end()) return variable->second;
    if (name.empty()) wrong(e, kj::str("nothing here has members, and ", e.name, " is none"));
    wrong(e, kj::str("there is no variable ", name.c_str(), othersThan(name.c_str(), environment)));
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
    if (isInList(e)) return ofList(e);
    return ofFunction(e);
  }

  // Each item must be comparable with the value that is looked for.
  Type ofList(const Expression& e) {
    auto wanted = typeOf(e.parts[0]);
    for (auto& item : e.parts[1].parts) {
      auto type = typeOf(item);
      const Type types[] = {wanted, type};
      if (findFunction("==", false, types) != nullptr) continue;
      wrong(item, kj::str("expected a ", nameOf(wanted), ", and this is a ", nameOf(type)));
    }
    return Type::kBool;
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
                     hintFor(e, types)));
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
      case Kind::kList:
        break;  // part of ofList()
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

  Value ofList(const Expression& e) {
    auto wanted = valueOf(e.parts[0]);
    bool found = false;
    for (auto& item : e.parts[1].parts) {
      const Value both[] = {wanted, valueOf(item)};
      const Type types[] = {both[0].type, both[1].type};
      auto equals = findFunction("==", false, types);
      KJ_REQUIRE(equals != nullptr, "an expression was not checked", e.name);
      found = equals->run(both).flag || found;
    }
    return Value::of(found);
  }

  Value ofCall(const Expression& e) {
    if (!e.isMethod && (e.name == "&&" || e.name == "||")) return ofLogic(e);
    if (!e.isMethod && e.name == "?:") return valueOf(e.parts[valueOf(e.parts[0]).flag ? 1 : 2]);
    if (isInList(e)) return ofList(e);
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
