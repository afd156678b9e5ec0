#include "common/cel/cel-functions.h"

#include <math.h>

#include <algorithm>

#include "common/net/text-values.h"

namespace talos::cel {
namespace {

constexpr kj::StringPtr kTooLarge = "the result is too large"_kj;

[[noreturn]] void wrong(kj::StringPtr message) {
  throw message;
}

// Types of arguments.
constexpr Type kB[] = {Type::kBool}, kI[] = {Type::kInt}, kU[] = {Type::kUint},
               kD[] = {Type::kDouble}, kT[] = {Type::kText}, kV[] = {Type::kVector},
               kO[] = {Type::kOptionalUint}, kBB[] = {Type::kBool, Type::kBool},
               kII[] = {Type::kInt, Type::kInt}, kUU[] = {Type::kUint, Type::kUint},
               kDD[] = {Type::kDouble, Type::kDouble}, kTT[] = {Type::kText, Type::kText},
               kPP[] = {Type::kDuration, Type::kDuration}, kVI[] = {Type::kVector, Type::kInt},
               kIV[] = {Type::kInt, Type::kVector}, kVV[] = {Type::kVector, Type::kVector},
               kOU[] = {Type::kOptionalUint, Type::kUint}, kID[] = {Type::kInt, Type::kDouble},
               kDI[] = {Type::kDouble, Type::kInt}, kIU[] = {Type::kInt, Type::kUint},
               kUI[] = {Type::kUint, Type::kInt}, kUD[] = {Type::kUint, Type::kDouble},
               kDU[] = {Type::kDouble, Type::kUint};

Value duration(int64_t nanoseconds) {
  return Value::of(nanoseconds * kj::NANOSECONDS);
}
kj::StringPtr textOf(const Value& value) {
  return kj::StringPtr(value.text.c_str(), value.text.size());
}

// --- arithmetic ---

using Overflows = bool (*)(const Value& a, const Value& b, Value& result);
template <Overflows overflows>
Value checked(Arguments a) {
  Value result;
  result.type = a[0].type;
  if (overflows(a[0], a[1], result)) wrong(kTooLarge);
  return result;
}
bool addInt(const Value& a, const Value& b, Value& r) {
  return __builtin_add_overflow(a.integer, b.integer, &r.integer);
}
bool subtractInt(const Value& a, const Value& b, Value& r) {
  return __builtin_sub_overflow(a.integer, b.integer, &r.integer);
}
bool multiplyInt(const Value& a, const Value& b, Value& r) {
  return __builtin_mul_overflow(a.integer, b.integer, &r.integer);
}
bool addUint(const Value& a, const Value& b, Value& r) {
  return __builtin_add_overflow(a.natural, b.natural, &r.natural);
}
bool subtractUint(const Value& a, const Value& b, Value& r) {
  return __builtin_sub_overflow(a.natural, b.natural, &r.natural);
}
bool multiplyUint(const Value& a, const Value& b, Value& r) {
  return __builtin_mul_overflow(a.natural, b.natural, &r.natural);
}

template <bool rest>
Value divideInt(Arguments a) {
  if (a[1].integer == 0) wrong("division by zero"_kj);
  if (a[0].integer == INT64_MIN && a[1].integer == -1) wrong(kTooLarge);
  return Value::of(rest ? a[0].integer % a[1].integer : a[0].integer / a[1].integer);
}
template <bool rest>
Value divideUint(Arguments a) {
  if (a[1].natural == 0) wrong("division by zero"_kj);
  return Value::of(rest ? a[0].natural % a[1].natural : a[0].natural / a[1].natural);
}
Value negateInt(Arguments a) {
  if (a[0].integer == INT64_MIN) wrong(kTooLarge);
  return Value::of(-a[0].integer);
}

// --- comparisons ---

// Returns -1, 0 or 1; 2 if the values have no order (NaN).
int order(const Value& a, const Value& b) {
  auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
  // Every int, uint and double is a long double.
  auto number = [](const Value& v) -> long double {
    if (v.type == Type::kInt) return static_cast<long double>(v.integer);
    if (v.type == Type::kUint) return static_cast<long double>(v.natural);
    return v.number;
  };
  switch (a.type) {
    case Type::kBool:
      return sign(a.flag, b.flag);
    case Type::kText:
      return sign(a.text, b.text);
    case Type::kDuration:
      return sign(a.integer, b.integer);
    default:
      return sign(number(a), number(b));
  }
}
template <int... orders>
Value compares(Arguments a) {
  int found = order(a[0], a[1]);
  return Value::of(((found == orders) || ...));
}

// --- conversions and the rest ---

Value intOf(Arguments a) {
  if (a[0].type == Type::kInt) return a[0];
  if (a[0].type == Type::kUint) {
    if (a[0].natural > uint64_t(INT64_MAX)) wrong(kTooLarge);
    return Value::of(static_cast<int64_t>(a[0].natural));
  }
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(a[0].number >= -kLimit && a[0].number < kLimit)) wrong(kTooLarge);
  return Value::of(static_cast<int64_t>(a[0].number));
}
Value uintOf(Arguments a) {
  if (a[0].type == Type::kUint) return a[0];
  if (a[0].type == Type::kInt) {
    if (a[0].integer < 0) wrong("a uint is not negative"_kj);
    return Value::of(static_cast<uint64_t>(a[0].integer));
  }
  constexpr double kLimit = 18446744073709551616.0;  // 2^64
  if (!(a[0].number > -1 && a[0].number < kLimit)) wrong(kTooLarge);
  return Value::of(static_cast<uint64_t>(a[0].number));
}
Value doubleOf(Arguments a) {
  if (a[0].type == Type::kInt) return Value::of(static_cast<double>(a[0].integer));
  if (a[0].type == Type::kUint) return Value::of(static_cast<double>(a[0].natural));
  return a[0];
}
Value durationOf(Arguments a) {
  KJ_IF_MAYBE (nanoseconds, nanosecondsIn(textOf(a[0]))) return duration(*nanoseconds);
  throw "not a valid duration; for example \"5s\""_kj;
}
Value at(Arguments a) {
  auto found = a[0].vector.find(a[1].integer);
  if (found == a[0].vector.end()) wrong("the map has no such key"_kj);
  return Value::of(found->second);
}
Value sumOfProducts(Arguments a) {
  double sum = 0;
  for (auto& [key, value] : a[0].vector) {
    auto other = a[1].vector.find(key);
    if (other != a[1].vector.end()) sum += value * other->second;
  }
  return Value::of(sum);
}

// Compares a text with a pattern in which * stands for any characters and ? for one. Takes time
// linear in the product of both lengths.
bool matchesGlob(const std::string& pattern, const std::string& text) {
  size_t p = 0, t = 0, star = std::string::npos, resumeAt = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumeAt = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++resumeAt;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

#define RUN(expression) [](Arguments a) -> Value { return Value::of(expression); }

constexpr Function kFunctions[] = {
    {"+"_kj, false, kII, Type::kInt, checked<addInt>},
    {"+"_kj, false, kUU, Type::kUint, checked<addUint>},
    {"+"_kj, false, kPP, Type::kDuration, checked<addInt>},
    {"+"_kj, false, kDD, Type::kDouble, RUN(a[0].number + a[1].number)},
    {"+"_kj, false, kTT, Type::kText, RUN(kj::StringPtr((a[0].text + a[1].text).c_str()))},
    {"-"_kj, false, kII, Type::kInt, checked<subtractInt>},
    {"-"_kj, false, kUU, Type::kUint, checked<subtractUint>},
    {"-"_kj, false, kPP, Type::kDuration, checked<subtractInt>},
    {"-"_kj, false, kDD, Type::kDouble, RUN(a[0].number - a[1].number)},
    {"-"_kj, false, kI, Type::kInt, negateInt},
    {"-"_kj, false, kD, Type::kDouble, RUN(-a[0].number)},
    {"*"_kj, false, kII, Type::kInt, checked<multiplyInt>},
    {"*"_kj, false, kUU, Type::kUint, checked<multiplyUint>},
    {"*"_kj, false, kDD, Type::kDouble, RUN(a[0].number* a[1].number)},
    {"/"_kj, false, kII, Type::kInt, divideInt<false>},
    {"/"_kj, false, kUU, Type::kUint, divideUint<false>},
    {"/"_kj, false, kDD, Type::kDouble, RUN(a[0].number / a[1].number)},
    {"%"_kj, false, kII, Type::kInt, divideInt<true>},
    {"%"_kj, false, kUU, Type::kUint, divideUint<true>},
    {"!"_kj, false, kB, Type::kBool, RUN(!a[0].flag)},
#define COMPARISONS(types)                                   \
  {"<"_kj, false, types, Type::kBool, compares<-1>},         \
      {"<="_kj, false, types, Type::kBool, compares<-1, 0>}, \
      {">"_kj, false, types, Type::kBool, compares<1>},      \
      {">="_kj, false, types, Type::kBool, compares<1, 0>},  \
      {"=="_kj, false, types, Type::kBool, compares<0>},     \
      {"!="_kj, false, types, Type::kBool, compares<-1, 1, 2>},
    COMPARISONS(kBB) COMPARISONS(kII) COMPARISONS(kUU) COMPARISONS(kDD) COMPARISONS(kTT)
        COMPARISONS(kPP) COMPARISONS(kID) COMPARISONS(kDI) COMPARISONS(kIU) COMPARISONS(kUI)
            COMPARISONS(kUD) COMPARISONS(kDU)
#undef COMPARISONS
                {"[]"_kj, false, kVI, Type::kDouble, at},
    {"in"_kj, false, kIV, Type::kBool, RUN(a[1].vector.count(a[0].integer) > 0)},
    {"int"_kj, false, kI, Type::kInt, intOf},
    {"int"_kj, false, kU, Type::kInt, intOf},
    {"int"_kj, false, kD, Type::kInt, intOf},
    {"uint"_kj, false, kI, Type::kUint, uintOf},
    {"uint"_kj, false, kU, Type::kUint, uintOf},
    {"uint"_kj, false, kD, Type::kUint, uintOf},
    {"double"_kj, false, kI, Type::kDouble, doubleOf},
    {"double"_kj, false, kU, Type::kDouble, doubleOf},
    {"double"_kj, false, kD, Type::kDouble, doubleOf},
    {"duration"_kj, false, kT, Type::kDuration, durationOf},
    {"size"_kj, false, kV, Type::kInt, RUN(static_cast<int64_t>(a[0].vector.size()))},
    {"size"_kj, true, kV, Type::kInt, RUN(static_cast<int64_t>(a[0].vector.size()))},
    {"contains"_kj, true, kTT, Type::kBool, RUN(a[0].text.find(a[1].text) != std::string::npos)},
    {"startsWith"_kj, true, kTT, Type::kBool, RUN(a[0].text.starts_with(a[1].text))},
    {"endsWith"_kj, true, kTT, Type::kBool, RUN(a[0].text.ends_with(a[1].text))},
    {"hasValue"_kj, true, kO, Type::kBool, RUN(a[0].flag)},
    {"orValue"_kj, true, kOU, Type::kUint, RUN(a[0].flag ? a[0].natural : a[1].natural)},
    {"value"_kj, true, kO, Type::kUint,
     [](Arguments a) {
       if (!a[0].flag) throw "there is no value; use orValue()"_kj;
       return Value::of(a[0].natural);
     }},
    {"glob"_kj, false, kTT, Type::kBool, RUN(matchesGlob(a[0].text, a[1].text))},
    {"multiply_qos_vectors"_kj, false, kVV, Type::kDouble, sumOfProducts},
};
#undef RUN

}  // namespace

const Function* findFunction(kj::StringPtr name, bool isMethod,
                             kj::ArrayPtr<const Type> arguments) {
  for (auto& function : kFunctions) {
    if (function.name == name && function.isMethod == isMethod && function.arguments == arguments) {
      return &function;
    }
  }
  return nullptr;
}

bool isFunction(kj::StringPtr name, bool isMethod) {
  return std::any_of(std::begin(kFunctions), std::end(kFunctions), [&](const Function& function) {
    return function.name == name && function.isMethod == isMethod;
  });
}

kj::Maybe<int64_t> nanosecondsIn(kj::StringPtr text) {
  bool negative = text.startsWith("-");
  KJ_IF_MAYBE (length, config::parseDuration(text.slice(negative ? 1 : 0))) {
    int64_t nanoseconds = *length / kj::NANOSECONDS;
    return negative ? -nanoseconds : nanoseconds;
  }
  return nullptr;
}

}  // namespace talos::cel
