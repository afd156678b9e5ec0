#include "common/grpc-messages/message-shape.h"

#include <capnp/message.h>
#include <capnp/schema-parser.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <kj/filesystem.h>
#include <stdlib.h>

#include <random>

#include "common/base/error.h"

namespace talos::grpcapi {
namespace {

namespace pb = google::protobuf;

constexpr char kSchema[] = R"(@0xb3ce53ab21ed8ea1;
struct Thing {
  b @0 :Bool; i32 @1 :Int32; i64 @2 :Int64; u32 @3 :UInt32; u64 @4 :UInt64; d @5 :Float64; t @6 :Text; y @7 :Data;
  part @8 :Part; parts @9 :List(Part);
  bs @10 :List(Bool); i32s @11 :List(Int32); i64s @12 :List(Int64); u32s @13 :List(UInt32); u64s @14 :List(UInt64);
  ds @15 :List(Float64); ts @16 :List(Text); ys @17 :List(Data);
  far @18 :UInt32 = 7; colour @19 :Colour; ms @20 :UInt64; hex @21 :Text; depth @22 :UInt32;
  choice :union { one @23 :Text; other @24 :Text; }
  struct Part { t @0 :Text; i64 @1 :Int64; u32s @2 :List(UInt32); inner @3 :Inner; }
  struct Inner { y @0 :Data; d @1 :Float64; }
  enum Colour { red @0; green @1; blue @2; }
})";
constexpr kj::StringPtr kShape =
    "1:b 2:i32 3:i64 4:u32 5:u64 6:d 7:t 8:y 9:part{1:t 2:i64 3:u32s 4:inner{1:y 2:d}} "
    "10:parts{1:t 2:i64 3:u32s 4:inner{1:y 2:d}} "
    "11:bs 12:i32s 13:i64s 14:u32s 15:u64s 16:ds 17:ts 18:ys 2000:far"_kj;

struct ShapeTest : ::testing::Test {
  ~ShapeTest() noexcept override {}
  kj::Own<const kj::Directory> files = kj::newInMemoryDirectory(kj::nullClock());
  capnp::SchemaParser parser;
  capnp::StructSchema schema = parse();
  capnp::MallocMessageBuilder message;
  capnp::DynamicStruct::Builder thing = message.initRoot<capnp::DynamicStruct>(schema);

  capnp::StructSchema parse() {
    kj::Path path("thing.capnp");
    files->openFile(path, kj::WriteMode::CREATE)->writeAll(kSchema);
    return parser.parseFromDirectory(*files, kj::mv(path), nullptr).getNested("Thing").asStruct();
  }
  kj::String hex(kj::StringPtr shape) {
    return kj::encodeHex(Shape(shape, schema).encode(thing.asReader()));
  }
  void decode(kj::StringPtr shape, kj::StringPtr bytes) {
    Shape(shape, schema).decode(kj::decodeHex(bytes), thing);
  }
  kj::String refusal(kj::StringPtr shape, kj::StringPtr bytes) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { decode(shape, bytes); })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    }
    return kj::str("taken");
  }
  kj::String wrong(kj::StringPtr shape) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { Shape(shape, schema); })) {
      return messageOf(*e);
    }
    return kj::str("right");
  }
};

// Catches: millions of items without content, which take few bytes on the wire and block the loop
// for seconds.
TEST_F(ShapeTest, ListsOfAnswersAreBounded) {
  thing.init("parts", kMostItems);
  EXPECT_EQ(hex("10:parts{1:t}").size(), 4 * kMostItems);
  thing.init("parts", kMostItems + 1);
  thing.init("i32s", kMostItems + 1);
  for (auto shape : {"10:parts{1:t}", "12:i32s"}) {
    auto e = kj::runCatchingExceptions([&] { hex(shape); });
    auto& refusal = KJ_REQUIRE_NONNULL(e, "it was written");
    EXPECT_EQ(kindOf(refusal), ErrorKind::kResourceExhausted);
    EXPECT_EQ(messageOf(refusal),
              "the node has sent a list of 65537 items; at most 65536 are read"_kj);
  }
}

// Catches: a name that is not in the schema, which would omit the field from the answer.
TEST_F(ShapeTest, NamesMustBeThere) {
  EXPECT_NE(nullptr, strstr(wrong("1:bee").cStr(), "Thing has no bee"));
  EXPECT_NE(nullptr, strstr(wrong("9:part{1:bee}").cStr(), "Part has no bee"));
  EXPECT_NE(nullptr, strstr(wrong("1:b~nonsense").cStr(), "nonsense"));
  EXPECT_NE(nullptr, strstr(wrong("9:part").cStr(), "no counterpart"));
  EXPECT_NE(nullptr, strstr(wrong("9:part{1:t").cStr(), "not closed"));
  EXPECT_NE(nullptr, strstr(wrong("1:b }").cStr(), "unexpected text"));
  EXPECT_NE(nullptr, strstr(wrong("1").cStr(), "a field is missing"));
  EXPECT_STREQ("right", wrong(kShape).cStr());
}

// Catches: marks of a shape that have no effect: fields that are always written, constants, a
// message of the same struct, unset members of a union.
TEST_F(ShapeTest, WritesWhatItsMarksSay) {
  EXPECT_STREQ("", hex("1:b 9:part{1:t}").cStr());
  EXPECT_STREQ("4a00", hex("9:part!{1:t}").cStr());
  EXPECT_STREQ("0800", hex("1:b!").cStr());
  EXPECT_STREQ("1200", hex("2!{1:b}").cStr());
  EXPECT_STREQ("3807", hex("7=7").cStr());
  EXPECT_STREQ("3a026f6b", hex("7='ok'").cStr());
  thing.set("t", "x");
  EXPECT_STREQ("12030a0178", hex("2{1:t}").cStr());
  thing.get("choice").as<capnp::DynamicStruct>().set("other", "y");
  EXPECT_STREQ("120179", hex("1:choice.one 2:choice.other").cStr());
}

// Catches: a transform that writes another value than Talos' clients expect.
TEST_F(ShapeTest, Transforms) {
  thing.set("i64", 1'500'000'000);  // 1.5 s after 1970
  EXPECT_STREQ("0a0808011080cab5ee01", hex("1:i64~time").cStr());
  thing.set("i64", -1);
  EXPECT_STREQ("0a1108ffffffffffffffffff0110ff93ebdc03", hex("1:i64~time").cStr());
  thing.set("i64", 0);
  EXPECT_STREQ("", hex("1:i64~time").cStr());
  thing.set("u64", 2500);
  EXPECT_STREQ("090000000000000440", hex("1:u64~seconds").cStr());
  thing.set("colour", "green");
  EXPECT_STREQ("0a05477265656e", hex("1:colour~title").cStr());
  EXPECT_STREQ("0801", hex("1:colour").cStr());
  struct {
    uint32_t mode, bits;
  } modes[] = {{040755, 1u << 31 | 0755},
               {0100644, 0644},
               {0120777, 1u << 27 | 0777},
               {060660, 1u << 26 | 0660},
               {020620, 1u << 26 | 1u << 21 | 0620},
               {010600, 1u << 25 | 0600},
               {0140755, 1u << 24 | 0755},
               {0104755, 1u << 23 | 0755},
               {0102755, 1u << 22 | 0755},
               {041777, 1u << 31 | 1u << 20 | 0777}};
  for (auto& mode : modes) {
    thing.set("u32", mode.mode);
    auto bytes = Shape("1:u32~mode", schema).encode(thing.asReader());
    EXPECT_EQ(mode.bits, KJ_ASSERT_NONNULL(WireReader(bytes).next()).value)
        << std::oct << mode.mode;
  }
  thing.set("t", "10.5.0.2/24");
  EXPECT_STREQ("0a060a040a050002", hex("1:t~ip").cStr());
  EXPECT_STREQ("0a080a040a0500021018", hex("1:t~prefix").cStr());
  thing.set("t", "none");
  EXPECT_STREQ("", hex("1:t~ip 2:t~prefix").cStr());
}

// Catches: a text with invalid UTF-8, for which a client in Go refuses the whole message.
TEST_F(ShapeTest, MendsTexts) {
  for (auto& [bytes, mended] : {std::pair("61ff62", "61efbfbd62"),
                                {"c3a4", "c3a4"},
                                {"c0af", "efbfbdefbfbd"},
                                {"eda080", "efbfbdefbfbdefbfbd"},
                                {"f4908080", "efbfbdefbfbdefbfbdefbfbd"},
                                {"e282", "efbfbdefbfbd"},
                                {"f09f9880", "f09f9880"}}) {
    auto text = kj::heapString(kj::decodeHex(kj::StringPtr(bytes)).asChars());
    thing.set("t", capnp::Text::Reader(text));
    auto out = Shape("1:t", schema).encode(thing.asReader());
    EXPECT_STREQ(mended, kj::encodeHex(out.slice(2, out.size())).cStr());
  }
}

// Catches: a default of our schema where proto3 says zero; wrong transforms of requests; a message
// whose halves arrive one after the other; a scalar that occurs twice and is not the last.
TEST_F(ShapeTest, ReadsRequests) {
  decode("2000:far", "");
  EXPECT_EQ(0u, thing.get("far").as<uint32_t>());
  decode("1:ms~ms", "0a0708021080c2d72f");  // 2.1 s
  EXPECT_EQ(2100u, thing.get("ms").as<uint64_t>());
  decode("1:hex~hex", "08ffffffffffffffffff01");
  EXPECT_STREQ("ffffffffffffffff", thing.get("hex").as<capnp::Text>().cStr());
  decode("1:depth~depth", "08ffffffffffffffffff01");
  EXPECT_EQ(0u, thing.get("depth").as<uint32_t>());
  decode("1:depth~depth", "0803");
  EXPECT_EQ(3u, thing.get("depth").as<uint32_t>());
  decode("0:i32=-1", "");
  EXPECT_EQ(-1, thing.get("i32").as<int32_t>());
  decode("9:part{1:t 2:i64}", "4a030a01614a021005");
  EXPECT_STREQ("a", thing.get("part").as<capnp::DynamicStruct>().get("t").as<capnp::Text>().cStr());
  EXPECT_EQ(5, thing.get("part").as<capnp::DynamicStruct>().get("i64").as<int64_t>());
  decode("2:i32", "10051006");
  EXPECT_EQ(6, thing.get("i32").as<int32_t>());
}

// Catches: a request that is accepted although an option is unsupported, or although it is not a
// message.
TEST_F(ShapeTest, RefusesRequests) {
  EXPECT_STREQ("Unimplemented: stage is not supported", refusal("3^stage", "1801").cStr());
  EXPECT_STREQ("taken", refusal("3^stage", "1800").cStr());
  EXPECT_STREQ("Unimplemented: it cannot", refusal("3^'it cannot' 1:t", "1801").cStr());
  EXPECT_STREQ("Unimplemented: it cannot", refusal("3^2'it cannot'", "18021801").cStr());
  EXPECT_STREQ("taken", refusal("3^2'it cannot'", "1802").cStr());
  EXPECT_STREQ("Unimplemented: it cannot", refusal("3^2'it cannot'", "1a0161").cStr());
  EXPECT_STREQ("Unimplemented: stage is not supported", refusal("3^stage", "1a01611a00").cStr());
  EXPECT_STREQ("InvalidArgument: 3 is not a valid Colour", refusal("1:colour", "0803").cStr());
  EXPECT_STREQ("InvalidArgument: a text is not UTF-8", refusal("1:t", "0a01ff").cStr());
  EXPECT_STREQ("InvalidArgument: a text is not UTF-8", refusal("1:t", "0a01ff0a0161").cStr());
  for (auto bytes : {"0a05", "08", "00", "0f", "0b", "0c", "0b14", "08ffffffffffffffffffffff01"}) {
    EXPECT_TRUE(refusal(kShape, bytes).startsWith("InvalidArgument: not a protobuf message"))
        << bytes;
  }
  EXPECT_STREQ("taken", refusal(kShape, "0b1b1c0c").cStr()) << "groups";
  WireWriter many;
  std::string packed(kMostItems + 1, '\1');
  many.bytes(12, kj::arrayPtr(packed.data(), packed.size()).asBytes());
  EXPECT_STREQ("InvalidArgument: field 12 has more than 65536 numbers",
               refusal(kShape, kj::encodeHex(many.written())).cStr());
}

// --- the same messages, read and written by libprotobuf ---

class AgainstProtobuf : public ShapeTest {
 protected:
  static constexpr struct {
    const char* name;
    int number;
    pb::FieldDescriptorProto::Type type;
  } kFields[] = {{"b", 1, pb::FieldDescriptorProto::TYPE_BOOL},
                 {"i32", 2, pb::FieldDescriptorProto::TYPE_INT32},
                 {"i64", 3, pb::FieldDescriptorProto::TYPE_INT64},
                 {"u32", 4, pb::FieldDescriptorProto::TYPE_UINT32},
                 {"u64", 5, pb::FieldDescriptorProto::TYPE_UINT64},
                 {"d", 6, pb::FieldDescriptorProto::TYPE_DOUBLE},
                 {"t", 7, pb::FieldDescriptorProto::TYPE_STRING},
                 {"y", 8, pb::FieldDescriptorProto::TYPE_BYTES}};

  pb::DescriptorPool pool;
  pb::DynamicMessageFactory factory{&pool};
  std::mt19937_64 draw{1};

  static void add(pb::DescriptorProto& to, const char* name, int number,
                  pb::FieldDescriptorProto::Type type, bool repeated, const char* of = nullptr,
                  bool packed = true) {
    auto& field = *to.add_field();
    field.set_name(name);
    field.set_number(number);
    field.set_type(type);
    field.set_label(repeated ? pb::FieldDescriptorProto::LABEL_REPEATED
                             : pb::FieldDescriptorProto::LABEL_OPTIONAL);
    if (of != nullptr) field.set_type_name(of);
    if (!packed) field.mutable_options()->set_packed(false);
  }
  // Builds Thing, and Loose, which packs nothing.
  void build() {
    pb::FileDescriptorProto file;
    file.set_name("thing.proto");
    file.set_syntax("proto3");
    auto& inner = *file.add_message_type();
    inner.set_name("Inner");
    add(inner, "y", 1, pb::FieldDescriptorProto::TYPE_BYTES, false);
    add(inner, "d", 2, pb::FieldDescriptorProto::TYPE_DOUBLE, false);
    auto& part = *file.add_message_type();
    part.set_name("Part");
    add(part, "t", 1, pb::FieldDescriptorProto::TYPE_STRING, false);
    add(part, "i64", 2, pb::FieldDescriptorProto::TYPE_INT64, false);
    add(part, "u32s", 3, pb::FieldDescriptorProto::TYPE_UINT32, true);
    add(part, "inner", 4, pb::FieldDescriptorProto::TYPE_MESSAGE, false, "Inner");
    for (bool packed : {true, false}) {
      auto& thing = *file.add_message_type();
      thing.set_name(packed ? "Thing" : "Loose");
      for (auto& f : kFields) add(thing, f.name, f.number, f.type, false);
      add(thing, "part", 9, pb::FieldDescriptorProto::TYPE_MESSAGE, false, "Part");
      add(thing, "parts", 10, pb::FieldDescriptorProto::TYPE_MESSAGE, true, "Part");
      for (auto& f : kFields) {
        bool number = f.number < 7;
        add(thing, (std::string(f.name) + "s").c_str(), f.number + 10, f.type, true, nullptr,
            packed || !number);
      }
      add(thing, "far", 2000, pb::FieldDescriptorProto::TYPE_UINT32, false);
    }
    ASSERT_NE(nullptr, pool.BuildFile(file));
  }
  std::unique_ptr<pb::Message> anew(const char* name) {
    return std::unique_ptr<pb::Message>(
        factory.GetPrototype(pool.FindMessageTypeByName(name))->New());
  }

  uint64_t upTo(uint64_t most) { return std::uniform_int_distribution<uint64_t>(0, most)(draw); }
  // Returns a number of any length as a varint.
  uint64_t number() { return draw() >> upTo(63); }
  std::string text() {
    static const char* kPieces[] = {
        "a", "/var/log", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f"};
    std::string text;
    for (auto left = upTo(4); left > 0; --left) text += kPieces[upTo(std::size(kPieces) - 1)];
    return text;
  }
  void fillOne(pb::Message& m, const pb::FieldDescriptor* f) {
    auto& r = *m.GetReflection();
    bool many = f->is_repeated();
    switch (f->cpp_type()) {
#define SET(KIND, TYPE, VALUE)                                    \
  case pb::FieldDescriptor::CPPTYPE_##KIND:                       \
    many ? r.Add##TYPE(&m, f, VALUE) : r.Set##TYPE(&m, f, VALUE); \
    break;
      SET(BOOL, Bool, upTo(1) == 1)
      SET(INT32, Int32, int32_t(number()))
      SET(INT64, Int64, int64_t(number()))
      SET(UINT32, UInt32, uint32_t(number()))
      SET(UINT64, UInt64, number())
      SET(DOUBLE, Double, doubleOf(draw()))
      SET(STRING, String, text())
#undef SET
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        fill(many ? *r.AddMessage(&m, f) : *r.MutableMessage(&m, f));
        break;
      default:
        ADD_FAILURE();
    }
  }
  void fill(pb::Message& m) {
    auto type = m.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      auto f = type->field(i);
      for (auto left = upTo(f->is_repeated() ? 3 : 1); left > 0; --left) fillOne(m, f);
    }
  }
  // Removes empty messages, which proto3 can encode in two ways.
  static void canonical(pb::Message& m) {
    auto& r = *m.GetReflection();
    std::vector<const pb::FieldDescriptor*> set;
    r.ListFields(m, &set);
    for (auto f : set) {
      if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (f->is_repeated()) {
        for (int i = 0; i < r.FieldSize(m, f); ++i) canonical(*r.MutableRepeatedMessage(&m, f, i));
      } else {
        canonical(*r.MutableMessage(&m, f));
        if (r.MutableMessage(&m, f)->ByteSizeLong() == 0) r.ClearField(&m, f);
      }
    }
  }
  static std::string textOf(kj::ArrayPtr<const kj::byte> bytes) {
    return {bytes.asChars().begin(), bytes.size()};
  }
  // Decodes and encodes the bytes again; nullptr if they are refused.
  kj::Maybe<std::string> byUs(const Shape& shape, const std::string& bytes) {
    capnp::MallocMessageBuilder built;
    auto thing = built.initRoot<capnp::DynamicStruct>(schema);
    auto failed = kj::runCatchingExceptions(
        [&]() { shape.decode(kj::arrayPtr(bytes.data(), bytes.size()).asBytes(), thing); });
    if (failed != nullptr) return nullptr;
    return textOf(shape.encode(thing.asReader()));
  }
  kj::Maybe<std::string> byThem(const std::string& bytes) {
    auto m = anew("Thing");
    if (!m->ParseFromString(bytes)) return nullptr;
    m->DiscardUnknownFields();
    canonical(*m);
    return m->SerializeAsString();
  }
  // Sorts the fields, because our writer and libprotobuf may order them differently.
  std::string sorted(const std::string& bytes) { return KJ_ASSERT_NONNULL(byThem(bytes)); }

  void mutate(std::string& bytes) {
    for (auto left = upTo(3); left > 0 && bytes.size() > 0; --left) {
      auto at = upTo(bytes.size() - 1);
      switch (upTo(3)) {
        case 0:
          bytes[at] ^= 1 << upTo(7);
          break;
        case 1:
          bytes.insert(at, 1, char(draw()));
          break;
        case 2:
          bytes.erase(at, 1 + upTo(3));
          break;
        default:
          bytes.resize(at);
      }
    }
  }
};

// Catches: any difference from libprotobuf in which bytes are a message, and in its content.
TEST_F(AgainstProtobuf, SameMessages) {
  build();
  auto asked = getenv("MESSAGES");
  auto count = asked == nullptr ? 3000 : atoi(asked);
  ASSERT_GT(count, 0);
  Shape shape(kShape, schema);
  pb::LogSilencer quiet;  // invalid bytes are tried, too
  unsigned refused = 0;
  for (int i = 0; i < count; ++i) {
    auto m = anew(upTo(1) == 0 ? "Thing" : "Loose");
    fill(*m);
    auto bytes = m->SerializeAsString();
    if (i % 2 == 1) mutate(bytes);
    auto ours = byUs(shape, bytes), theirs = byThem(bytes);
    auto shown = kj::encodeHex(kj::arrayPtr(bytes.data(), bytes.size()).asBytes());
    ASSERT_EQ(theirs == nullptr, ours == nullptr) << "message " << i << ": " << shown.cStr();
    KJ_IF_MAYBE (text, ours) {
      ASSERT_EQ(KJ_ASSERT_NONNULL(theirs), sorted(*text))
          << "message " << i << ": " << shown.cStr();
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, unsigned(count) / 10) << "what is wrong was tried as well";
}

}  // namespace
}  // namespace talos::grpcapi
