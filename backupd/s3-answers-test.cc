#include "backupd/s3-answers.h"

#include <gtest/gtest.h>

namespace talos::backupd {
namespace {

kj::ArrayPtr<const char> bytes(kj::StringPtr text) {
  return text.asArray();
}

// Catches: a second page that is not requested; names that differ from the store's.
TEST(S3Answers, ReadsAPage) {
  auto page = readS3Page(bytes(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>backups</Name><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b</Key><Size>1</"
      "Size>"
      "</Contents><Contents><Key>c</Key></Contents></ListBucketResult>"_kj));
  EXPECT_EQ("a&b c", kj::strArray(page.keys, " "));
  EXPECT_TRUE(page.more);
  page = readS3Page(bytes("<ListBucketResult/>"_kj));
  EXPECT_TRUE(page.keys.empty());
  EXPECT_FALSE(page.more);
}

// Catches: a login page that counts as an empty bucket.
TEST(S3Answers, RefusesWhatIsNoPage) {
  for (auto wrong : {""_kj, "<html></html>"_kj, "<ListBucketResult>"_kj,
                     "<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>"_kj}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&]() { readS3Page(bytes(wrong)); }) != nullptr)
        << wrong.cStr();
  }
}

// Catches: an error without the store's cause; an error that writes control characters to a
// terminal.
TEST(S3Answers, NamesTheReasonOfAnError) {
  EXPECT_EQ("403 Forbidden: SignatureDoesNotMatch: Check your key."_kj,
            readS3Error(403, "Forbidden",
                        bytes("<Error><Code>SignatureDoesNotMatch</Code>"
                              "<Message>Check your key.</Message></Error>"_kj)));
  EXPECT_EQ("502 Bad Gateway"_kj, readS3Error(502, "Bad Gateway", bytes("<html><p></html>"_kj)));
  EXPECT_EQ("400 ?[2J: a b"_kj, readS3Error(400, "\x1b[2J", bytes("<E><Code>a\nb</Code></E>"_kj)));
  auto deep = kj::str("<E><Message>", kj::repeat('x', 5000), "</Message></E>");
  EXPECT_EQ(300u, readS3Error(400, "", bytes(deep)).size());
}

}  // namespace
}  // namespace talos::backupd
