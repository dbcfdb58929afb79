# Build: static, so that the final stage needs nothing but the binary.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
# Dependencies first: they change less often than the code.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src benches && echo 'fn main() {}' > src/main.rs && touch src/lib.rs \
    && echo 'fn main() {}' > benches/decision.rs \
    && cargo build --release --locked && rm -r src benches
COPY src src
COPY benches benches
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin muster

# Run: no shell, no package manager, no root.
FROM scratch
COPY --from=build /src/target/release/muster /muster
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/muster"]
CMD ["serve", "--log-format", "json"]
