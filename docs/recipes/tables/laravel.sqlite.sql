CREATE TABLE "device_tokens" ("id" integer primary key autoincrement not null, "user_id" integer not null, "token" varchar not null, "platform" varchar not null, "created_at" datetime, "updated_at" datetime);
CREATE UNIQUE INDEX "device_tokens_token_unique" ON "device_tokens" ("token");
